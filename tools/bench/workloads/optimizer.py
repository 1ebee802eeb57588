#!/usr/bin/python3
"""Trains a deep linear network in bf16 whose optimizer states are six times its parameters, and says what came out.

Layers are made wide one at a time, and recomputed for backward, so that weights in float32 do not pile up. Each
parameter is updated as soon as its gradient is complete (as LOMO does: Lv et al., arXiv 2306.09782), so one layer's
gradient is there at a time. What remains are parameters, 2 bytes each, and the states, 12 bytes: two moments and the
master weights. --tier says where terrace.torch.AdamW keeps these.

    optimizer.py --layers 18 --width 4096 --tier nvme --directory /var/tmp --steps 3
"""
import os
import sys
from pathlib import Path

import torch
from torch.utils.checkpoint import checkpoint

from measured import Measured, parser, positive

SOURCE = Path(__file__).resolve().parents[3]
for place in (SOURCE / "liballoc/python", Path(__file__).resolve().parents[2] / "python"):
    sys.path.append(str(place))  # a checkout's, an installation's

import terrace.torch  # noqa: E402

TOKENS = 4


def parse_arguments():
    made = parser(__doc__, steps=3)
    made.add_argument("--layers", type=positive, default=18)
    made.add_argument("--width", type=positive, default=4096)
    made.add_argument("--tier", choices=("dram", "nvme"), default="dram")
    made.add_argument("--directory", default="/var/tmp")
    return made.parse_args()


def layer(x, weight):
    return torch.tanh(torch.nn.functional.linear(x, weight.float()))


class Network:
    """The layers, and an optimizer that updates each when backward has left it."""

    def __init__(self, arguments):
        generator = torch.Generator().manual_seed(arguments.seed)
        shape, scale = (arguments.width, arguments.width), arguments.width ** -.5
        self.weights = [torch.nn.Parameter((torch.randn(shape, generator=generator) * scale).bfloat16())
                        for _ in range(arguments.layers)]
        more = {"directory": arguments.directory, "nvme_bytes": "64GiB"} if arguments.tier == "nvme" else {}
        self.optimizer = terrace.torch.AdamW(self.weights, lr=1e-3, tier=arguments.tier, **more)
        for weight in self.weights:
            weight.register_hook(self._update_those_before)

    def _update_those_before(self, gradient):
        """Called with a gradient before it is in place: those of layers above are, one at most."""
        if any(weight.grad is not None for weight in self.weights):
            self.update()
        return gradient

    def update(self):
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def loss(self, x):
        for weight in self.weights:
            x = checkpoint(layer, x, weight)
        return x.pow(2).mean()


def main():
    arguments = parse_arguments()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    network = Network(arguments)
    run = Measured("optimizer", arguments)
    for number in range(arguments.steps):
        generator = torch.Generator().manual_seed(arguments.seed + number)
        x = torch.randn(TOKENS, arguments.width, generator=generator).requires_grad_()
        with run.step():
            network.loss(x).backward()
            network.update()
    parameters = sum(weight.numel() for weight in network.weights)
    counts = network.optimizer.statistics()
    for weight in network.weights:
        run.digest(weight.detach().view(torch.int16).numpy())
    run.finish(parameters=parameters, data_bytes=14 * parameters, states_bytes=12 * parameters,
               nvme_read_bytes=counts["nvme_read_bytes"], nvme_written_bytes=counts["nvme_written_bytes"])


if __name__ == "__main__":
    main()
