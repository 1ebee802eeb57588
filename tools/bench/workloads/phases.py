#!/usr/bin/python3
"""Trains one network in epochs as people do: batches, a last one of half the size, then an evaluation without gradients.

An ordinary PyTorch program: it knows nothing of Terrace. Three phases come in turn, each with allocations of its own, so
that what was learned of one says nothing about the next. A step of the output is an epoch; the seconds of its parts stand
in the result. Everything random is drawn from --seed and the number of threads is fixed: every loss, of training and of
evaluation, and all parameters must be the same to the last bit, whatever lies underneath.

    phases.py --model unet --batch 6 --steps 8
    phases.py --model densenet121 --batch 16 --size 96       (about 1 GiB)
"""
import argparse
import json
import os
import sys
import time

import torch

from measured import peak_resident_bytes, positive
from models import MODELS, UNET_LEVELS, UNET_MULTIPLE
from train import seed_everything, state_hash


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--model", choices=sorted(MODELS), default="unet")
    parser.add_argument("--batch", type=positive, help="samples per step (each model has its default)")
    parser.add_argument("--size", type=positive, help="edge of the images, or tokens per sequence")
    parser.add_argument("--layers", type=positive, default=8, help="layers of the transformer (8)")
    parser.add_argument("--steps", "--epochs", type=positive, default=8, help="epochs (8)")
    parser.add_argument("--batches", type=positive, default=3, help="whole batches of an epoch (3)")
    parser.add_argument("--evaluations", type=positive, default=2, help="batches of an evaluation (2)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=positive, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", metavar="FILE", help="write the result here as well")
    arguments = parser.parse_args()
    batch, size = MODELS[arguments.model][:2]
    arguments.batch, arguments.size = arguments.batch or batch, arguments.size or size
    if arguments.batch < 4:  # a last one of a single sample has no variance to normalise by
        parser.error(f"--batch {arguments.batch}: the last batch of an epoch has half of it, and wants two samples at least")
    if arguments.model == "unet" and arguments.size % UNET_MULTIPLE:
        parser.error(f"--size {arguments.size} is not a multiple of {UNET_MULTIPLE}: the unet halves its images {UNET_LEVELS} times")
    return arguments


class Program:
    def __init__(self, arguments):
        build, self.make_data = MODELS[arguments.model][2:]
        self.arguments, self.model = arguments, build(arguments.size, arguments.layers)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.criterion = torch.nn.CrossEntropyLoss()

    def train(self, samples):
        inputs, wanted = self.make_data(samples, self.arguments.size)
        self.optimizer.zero_grad()
        loss = self.criterion(self.model(inputs), wanted.flatten())
        loss.backward()
        self.optimizer.step()
        return float(loss)

    def evaluate(self, samples):
        with torch.no_grad():
            inputs, wanted = self.make_data(samples, self.arguments.size)
            return float(self.criterion(self.model(inputs), wanted.flatten()))

    def epoch(self):
        parts, batch = Parts(), self.arguments.batch
        self.model.train()
        for _ in range(self.arguments.batches):
            parts.run("train", self.train, batch)
        parts.run("last batch", self.train, batch // 2)
        self.model.eval()
        for _ in range(self.arguments.evaluations):
            parts.run("evaluate", self.evaluate, batch)
        return parts.result()


class Parts:
    """The parts of one step of the output: their seconds by name, and what they gave, exactly."""

    def __init__(self):
        self.seconds, self.losses = {}, []

    def run(self, name, part, *given):
        start = time.perf_counter()
        self.losses.append(part(*given).hex())
        self.seconds.setdefault(name, []).append(time.perf_counter() - start)

    def result(self):
        return {"seconds": sum(map(sum, self.seconds.values())), "loss": self.losses, "phases": self.seconds}


def run_all(arguments, one_step):
    """Every step with its line, as soon as it is over."""
    steps = []
    for number in range(1, arguments.steps + 1):
        steps.append(one_step())
        print(f"step {number}  {steps[-1]['seconds']:8.3f} s  loss {steps[-1]['loss'][-1]}", flush=True)
    return steps


def write_result(arguments, started, steps, trained, **facts):
    result = {"format": "terrace-phases", "version": 1, **facts, "seed": arguments.seed, "threads": arguments.threads,
              "torch": torch.__version__, "steps": steps, "state_sha256": state_hash(trained),
              "wall_seconds": time.perf_counter() - started, "peak_resident_bytes": peak_resident_bytes()}
    print(f"state sha256 {result['state_sha256']}")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as out:
            json.dump(result, out, indent=1)


def main():
    arguments = parse_arguments()
    started = time.perf_counter()
    seed_everything(arguments.seed, arguments.threads)
    program = Program(arguments)
    steps = run_all(arguments, program.epoch)
    write_result(arguments, started, steps, program.model, model=arguments.model, batch=arguments.batch, size=arguments.size)
    return 0


if __name__ == "__main__":
    sys.exit(main())
