#!/usr/bin/python3
"""Trains one network for a few steps, the same way every time, and says what came out.

An ordinary PyTorch program: it knows nothing of Terrace. Everything random is drawn from --seed and the number
of threads is fixed, so two runs on one machine give the same losses and the same parameters to the last bit;
whatever allocator, limit or swap lies underneath must not change them. Per step it prints the seconds and the
loss as a hexadecimal float (exact), at the end a SHA-256 over all parameters and buffers and the peak of
resident memory. --json FILE holds the same for programs.

    train.py --model densenet121 --batch 64 --size 128 --steps 5
    train.py --model transformer --batch 8 --size 128        (about 1 GiB)
"""
import argparse
import hashlib
import json
import os
import random
import sys
import time

import numpy
import torch
from torch.utils.data import DataLoader, TensorDataset

from measured import peak_resident_bytes, positive
from models import MODELS, UNET_LEVELS, UNET_MULTIPLE


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--model", choices=sorted(MODELS), default="densenet121")
    parser.add_argument("--batch", type=positive, help="samples per step (each model has its default)")
    parser.add_argument("--size", type=positive, help="edge of the images, or tokens per sequence")
    parser.add_argument("--layers", type=positive, default=8, help="layers of the transformer (8)")
    parser.add_argument("--steps", type=positive, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=positive, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--workers", type=int, default=0, help="forked DataLoader workers (0: none)")
    parser.add_argument("--json", metavar="FILE", help="write the result here as well")
    arguments = parser.parse_args()
    batch, size = MODELS[arguments.model][:2]
    arguments.batch = arguments.batch or batch
    arguments.size = arguments.size or size
    if arguments.model == "unet" and arguments.size % UNET_MULTIPLE:
        parser.error(f"--size {arguments.size} is not a multiple of {UNET_MULTIPLE}: the unet halves its images {UNET_LEVELS} times")
    return arguments


def seed_everything(seed, threads):
    random.seed(seed)
    numpy.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)


def batches(arguments, make_data):
    """Yields (inputs, targets) for ever. With workers the epoch ends and forks anew every few steps."""
    if not arguments.workers:
        fixed = make_data(arguments.batch, arguments.size)
        while True:
            yield fixed
    data = TensorDataset(*make_data(arguments.batch * 2 * arguments.workers, arguments.size))
    loader = DataLoader(data, arguments.batch, shuffle=True, num_workers=arguments.workers, drop_last=True)
    while True:
        yield from loader


def train(arguments):
    seed_everything(arguments.seed, arguments.threads)
    build, make_data = MODELS[arguments.model][2:]
    model = build(arguments.size, arguments.layers)
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    criterion = torch.nn.CrossEntropyLoss()
    source = batches(arguments, make_data)
    steps = []
    for number in range(1, arguments.steps + 1):
        steps.append(one_step(model, optimizer, criterion, source))
        print(f"step {number}  {steps[-1]['seconds']:8.3f} s  loss {steps[-1]['loss']}", flush=True)
    return model, steps


def one_step(model, optimizer, criterion, source):
    start = time.perf_counter()
    inputs, targets = next(source)
    optimizer.zero_grad()
    loss = criterion(model(inputs), targets.flatten())
    loss.backward()
    optimizer.step()
    return {"seconds": time.perf_counter() - start, "loss": float(loss).hex()}


def state_hash(model):
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().contiguous().numpy().tobytes())
    return digest.hexdigest()


def main():
    arguments = parse_arguments()
    start = time.perf_counter()
    model, steps = train(arguments)
    result = {
        "format": "terrace-train", "version": 1,
        "model": arguments.model, "batch": arguments.batch, "size": arguments.size,
        "layers": arguments.layers if arguments.model == "transformer" else None,
        "seed": arguments.seed, "threads": arguments.threads, "workers": arguments.workers,
        "torch": torch.__version__, "steps": steps, "state_sha256": state_hash(model),
        "wall_seconds": time.perf_counter() - start, "peak_resident_bytes": peak_resident_bytes(),
    }
    print(f"state sha256 {result['state_sha256']}")
    print(f"peak resident {result['peak_resident_bytes'] / 2**30:.2f} GiB")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as out:
            json.dump({key: value for key, value in result.items() if value is not None}, out, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
