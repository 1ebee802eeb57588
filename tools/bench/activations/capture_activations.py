#!/usr/bin/python3
"""Captures what real networks hold between forward and backward, for `terrace bench compression --captured DIR`.

Every output of ReLU, ReLU6 and MaxPool of torchvision's AlexNet, VGG-16, ResNet-34 and MobileNetV2 in one batch in
training mode, on seeded weights ("fresh") and again after some SGD steps ("trained"). The task is made up but has
structure: gratings of ten orientations and colours under noise, so that filters specialise and channels die as they do
on photographs. The same seed, number of threads and torch give the same files.

    /usr/bin/python3 tools/bench/activations/capture_activations.py DIR [--quick]
"""
import argparse
import json
import math
import sys
from pathlib import Path

import torch
import torchvision

NETWORKS = {
    "alexnet": torchvision.models.alexnet,
    "vgg16": torchvision.models.vgg16,
    "resnet34": torchvision.models.resnet34,
    "mobilenet_v2": torchvision.models.mobilenet_v2,
}
KINDS = {torch.nn.ReLU: "relu", torch.nn.ReLU6: "relu6", torch.nn.MaxPool2d: "maxpool"}
CLASSES = 10


def gratings(batch, size, generator):
    """Images of class k: stripes at k * 18 degrees in the k-th colour; phase, frequency and noise vary."""
    classes = torch.randint(CLASSES, (batch,), generator=generator)
    angle = classes * (math.pi / CLASSES)
    frequency = 4 + 8 * torch.rand(batch, generator=generator)
    phase = 2 * math.pi * torch.rand(batch, generator=generator)
    axis = torch.linspace(0, 1, size)
    along = axis[None, :, None] * torch.sin(angle)[:, None, None] + axis[None, None, :] * torch.cos(angle)[:, None, None]
    stripes = torch.sin(2 * math.pi * frequency[:, None, None] * along + phase[:, None, None])
    hue = 2 * math.pi * classes[:, None] / CLASSES + torch.tensor([0, 2 * math.pi / 3, 4 * math.pi / 3])
    images = stripes[:, None] * (1 + torch.cos(hue))[:, :, None, None]
    return images + 0.3 * torch.randn(batch, 3, size, size, generator=generator), classes


class Capture:
    """Writes what the hooked layers put out, at once: a later layer may work in place."""

    def __init__(self, directory, network, weights):
        self.directory, self.network, self.weights = directory, network, weights
        self.calls, self.tensors = {}, []

    def hook(self, model):
        return [module.register_forward_hook(self.writer(name, KINDS[type(module)]))
                for name, module in model.named_modules() if type(module) in KINDS]

    def writer(self, name, kind):
        def write(_module, _inputs, output):
            call = self.calls[name] = self.calls.get(name, 0) + 1  # ResNet uses one ReLU twice
            layer = name if call == 1 else f"{name}:{call}"
            self.write(layer, kind, output.detach().contiguous())
        return write

    def write(self, layer, kind, output):
        file = f"{self.network}-{self.weights}-{len(self.tensors):02d}.f32"
        (self.directory / file).write_bytes(output.numpy().astype("<f4", copy=False).tobytes())
        self.tensors.append({
            "file": file, "network": self.network, "weights": self.weights, "layer": layer, "kind": kind,
            "element": "f32", "shape": list(output.shape), "bytes": output.numel() * 4,
            "sparsity": round((output == 0).double().mean().item(), 6),
        })


def capture(model, directory, network, weights, images):
    writer = Capture(directory, network, weights)
    handles = writer.hook(model)
    with torch.no_grad():
        model(images)
    for handle in handles:
        handle.remove()
    return writer.tensors


def train(model, options, generator):
    """Returns the first and the last loss, so that it can be seen whether anything was learnt."""
    optimizer = torch.optim.SGD(model.parameters(), lr=options.learning_rate, momentum=0.9)
    losses = []
    for _ in range(options.steps):
        images, classes = gratings(options.batch, options.size, generator)
        loss = torch.nn.functional.cross_entropy(model(images), classes)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5)
        optimizer.step()
        losses.append(round(loss.item(), 4))
    return {"steps": options.steps, "first_loss": losses[0], "last_loss": losses[-1]}


def run(network, options):
    torch.manual_seed(options.seed)
    generator = torch.Generator().manual_seed(options.seed)
    model = NETWORKS[network](num_classes=CLASSES).train()
    images, _ = gratings(options.batch, options.size, torch.Generator().manual_seed(options.seed + 1))
    tensors = capture(model, options.directory, network, "fresh", images)
    training = train(model, options, generator)
    tensors += capture(model, options.directory, network, "trained", images)
    return tensors, training


def bounded(low, high):
    def parse(text):
        value = int(text)
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{value}: from {low} to {high}")
        return value
    return parse


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, help="where the tensors and index.json go; made if missing")
    parser.add_argument("--networks", default=",".join(NETWORKS), help="of %(default)s")
    parser.add_argument("--quick", action="store_true", help="small images, two steps: for continuous integration")
    parser.add_argument("--size", type=bounded(64, 512), default=112, help="edge of an image (%(default)s)")
    parser.add_argument("--batch", type=bounded(2, 256), default=16, help="images (%(default)s)")
    parser.add_argument("--steps", type=bounded(1, 10000), default=40, help="of SGD (%(default)s)")
    parser.add_argument("--learning-rate", type=float, default=0.01, help="(%(default)s)")
    parser.add_argument("--threads", type=bounded(1, 256), default=2, help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="(%(default)s)")
    options = parser.parse_args()
    options.networks = options.networks.split(",")
    for unknown in set(options.networks) - set(NETWORKS):
        parser.error(f"--networks {unknown}: there are {', '.join(NETWORKS)}")
    if options.quick:
        options.size, options.batch, options.steps = 64, 2, 2
    return options


def main():
    options = parse_arguments()
    torch.set_num_threads(options.threads)
    torch.use_deterministic_algorithms(True)
    options.directory.mkdir(parents=True, exist_ok=True)
    index = {"format": "terrace-activations", "version": 1, "torch": torch.__version__,
             "torchvision": torchvision.__version__, "seed": options.seed, "threads": options.threads,
             "batch": options.batch, "size": options.size, "training": {}, "tensors": []}
    for network in options.networks:
        tensors, index["training"][network] = run(network, options)
        index["tensors"] += tensors
        print(f"{network}: {len(tensors)} tensors, loss {index['training'][network]['first_loss']} -> "
              f"{index['training'][network]['last_loss']}", flush=True)
    (options.directory / "index.json").write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
