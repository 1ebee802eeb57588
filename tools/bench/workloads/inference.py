#!/usr/bin/python3
"""Weights that never change, read in order again and again: a forward pass through a stack of square matrices.

A step is one pass: X becomes W_i @ X for every matrix in turn. With `--calibrate SECONDS` nothing is measured; the
program prints the smallest batch (columns of X) with which a pass computes that long on this machine.

    inference.py --matrices 24 --width 4096 --batch 128        24 matrices of 64 MiB
"""
import sys
import time

import numpy

import measured

BATCHES = range(16, 2049, 16)


def parse_arguments():
    parser = measured.parser(__doc__, steps=6)
    parser.add_argument("--matrices", type=measured.positive, default=24)
    parser.add_argument("--width", type=measured.positive, default=4096, help="rows and columns of each (4096: 64 MiB)")
    parser.add_argument("--batch", type=measured.positive, default=128, help="columns of X (128)")
    parser.add_argument("--calibrate", type=float, metavar="SECONDS", help="print the batch whose pass takes this long")
    return parser.parse_args()


def matrix(random, width):
    """Scaled so that a pass keeps the size of its numbers."""
    weights = numpy.empty((width, width), numpy.float32)
    random.standard_normal(dtype=numpy.float32, out=weights)
    weights /= numpy.float32(width**0.5)
    return weights


def calibrate(arguments, random):
    weights = matrix(random, arguments.width)
    low, high = 0, len(BATCHES) - 1
    while low < high:
        middle = (low + high) // 2
        enough = arguments.matrices * product_seconds(weights, random, BATCHES[middle]) >= arguments.calibrate
        low, high = (low, middle) if enough else (middle + 1, high)
    return BATCHES[low]


def product_seconds(weights, random, batch):
    """The least of several, as other work only adds."""
    x = random.standard_normal((weights.shape[0], batch), dtype=numpy.float32)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        weights @ x
        times.append(time.perf_counter() - start)
    return min(times)


def main():
    arguments = parse_arguments()
    random = numpy.random.default_rng(arguments.seed)
    if arguments.calibrate:
        print(calibrate(arguments, random))
        return 0
    run = measured.Measured("inference", arguments)
    weights = [matrix(random, arguments.width) for _ in range(arguments.matrices)]
    first = random.standard_normal((arguments.width, arguments.batch), dtype=numpy.float32)
    for _ in range(arguments.steps):
        with run.step():
            x = first
            for layer in weights:
                x = layer @ x
        run.digest(x)
    run.finish(data_bytes=sum(layer.nbytes for layer in weights), batch=arguments.batch)
    return 0


if __name__ == "__main__":
    sys.exit(main())
