#!/usr/bin/python3
"""Two networks against each other, with gradients of several small batches gathered before each update.

A program that nobody tuned Terrace for: a generator and a discriminator (Radford, Metz, Chintala 2016, arXiv:1511.06434, at
a width of --width) are updated by turns, each from --gather batches, and the discriminator sees crops of larger images, at
places drawn anew each time. A step of the output is an update of both. Everything random is drawn from --seed and the
number of threads is fixed, so that every loss and all parameters are the same to the last bit whatever lies underneath.

    gan.py --batch 96 --size 128 --steps 8
    gan.py --size 64 --steps 8       (a quarter of that)
"""
import argparse
import os
import sys
import time

import torch
from torch import nn

from measured import positive
from phases import Parts, run_all, write_result
from train import seed_everything

NOISE = 64
LARGER = 3 / 2  # the edge of an image, times that of a crop


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--batch", type=positive, default=96, help="images of a small batch (96)")
    parser.add_argument("--size", type=positive, default=128, help="edge of the crops, a power of two from 32 on (128)")
    parser.add_argument("--width", type=positive, default=32, help="channels of the largest maps (32)")
    parser.add_argument("--gather", type=positive, default=2, help="small batches for an update (2)")
    parser.add_argument("--steps", type=positive, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=positive, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", metavar="FILE", help="write the result here as well")
    arguments = parser.parse_args()
    if arguments.size < 32 or arguments.size & (arguments.size - 1):
        parser.error(f"--size {arguments.size} is no power of two from 32 on: every layer halves the images, down to 4")
    return arguments


def levels_of(size):
    return size.bit_length() - 3  # down to maps of 4 x 4


def generator(size, width):
    channels = [width << level for level in reversed(range(levels_of(size)))]
    layers = [nn.ConvTranspose2d(NOISE, channels[0], 4, bias=False), nn.BatchNorm2d(channels[0]), nn.ReLU()]
    for given, out in zip(channels, channels[1:]):
        layers += [nn.ConvTranspose2d(given, out, 4, 2, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU()]
    return nn.Sequential(*layers, nn.ConvTranspose2d(channels[-1], 3, 4, 2, 1), nn.Tanh())


def discriminator(size, width):
    channels = [3, *(width << level for level in range(levels_of(size)))]
    layers = []
    for given, out in zip(channels, channels[1:]):
        layers += [nn.Conv2d(given, out, 4, 2, 1, bias=False), nn.BatchNorm2d(out), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.Conv2d(channels[-1], 1, 4), nn.Flatten(0))


class Program:
    def __init__(self, arguments):
        self.arguments = arguments
        self.networks = nn.ModuleDict({"generator": generator(arguments.size, arguments.width),
                                       "discriminator": discriminator(arguments.size, arguments.width)})
        self.makes, self.judges = self.networks["generator"], self.networks["discriminator"]
        self.optimizers = {name: torch.optim.Adam(network.parameters(), lr=2e-4, betas=(0.5, 0.999))
                           for name, network in self.networks.items()}
        self.criterion = nn.BCEWithLogitsLoss()

    def made(self):
        return self.makes(torch.randn(self.arguments.batch, NOISE, 1, 1))

    def crops(self):
        """Of images made up anew, each at a place of its own."""
        batch, size = self.arguments.batch, self.arguments.size
        edge = int(size * LARGER)
        images = torch.rand(batch, 3, edge, edge) * 2 - 1
        places = torch.randint(0, edge - size + 1, (batch, 2)).tolist()
        return torch.stack([image[:, down:down + size, across:across + size] for image, (down, across) in zip(images, places)])

    def loss(self, images, is_real):
        scores = self.judges(images)
        return self.criterion(scores, torch.full_like(scores, float(is_real))) / self.arguments.gather

    def update(self, name, loss_of_batch):
        total = 0.0
        self.optimizers[name].zero_grad()
        for _ in range(self.arguments.gather):
            loss = loss_of_batch()
            loss.backward()
            total += float(loss)
        self.optimizers[name].step()
        return total

    def judge(self):
        """What the generator makes is data here: no gradient goes into it."""
        def loss():
            with torch.no_grad():
                made = self.made()
            return self.loss(self.crops(), True) + self.loss(made, False)
        return self.update("discriminator", loss)

    def deceive(self):
        return self.update("generator", lambda: self.loss(self.made(), True))

    def step(self):
        parts = Parts()
        parts.run("discriminator", self.judge)
        parts.run("generator", self.deceive)
        return parts.result()


def main():
    arguments = parse_arguments()
    started = time.perf_counter()
    seed_everything(arguments.seed, arguments.threads)
    program = Program(arguments)
    steps = run_all(arguments, program.step)
    write_result(arguments, started, steps, program.networks, model="gan", batch=arguments.batch, size=arguments.size)
    return 0


if __name__ == "__main__":
    sys.exit(main())
