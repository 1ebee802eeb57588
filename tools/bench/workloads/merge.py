#!/usr/bin/python3
"""Sorted runs in memory, merged into one stream: each run is read once from its beginning, all of them side by side.

The merge goes block by block. What is not above the smallest of the blocks' last elements is in its final place
once sorted; so far every run advances. The output goes into the digest and is not kept. A step is one whole merge,
the digest included.

    merge.py --bytes 1073741824 --runs 16
"""
import sys

import numpy

import measured


def parse_arguments():
    parser = measured.parser(__doc__, steps=2)
    parser.add_argument("--bytes", type=measured.positive, default=1 << 30, help="of all runs together (1 GiB)")
    parser.add_argument("--runs", type=measured.positive, default=16)
    parser.add_argument("--block", type=measured.positive, default=1 << 16, help="elements of a run looked at at once (65536)")
    return parser.parse_args()


def sorted_run(random, elements):
    run = random.integers(0, 1 << 32, elements, dtype=numpy.int64)
    numpy.cumsum(run, out=run)
    return run


def merged(runs, block):
    """Yields the elements of all runs in order, in arrays."""
    at = [0] * len(runs)
    while any(start < len(run) for start, run in zip(at, runs)):
        heads = [run[start:start + block] for start, run in zip(at, runs)]
        bound = min(head[-1] for head in heads if len(head))
        counts = [int(numpy.searchsorted(head, bound, side="right")) for head in heads]
        out = numpy.concatenate([head[:count] for head, count in zip(heads, counts)])
        out.sort(kind="stable")  # finds the runs that are sorted already
        at = [start + count for start, count in zip(at, counts)]
        yield out


def main():
    arguments = parse_arguments()
    measure = measured.Measured("merge", arguments)
    random = numpy.random.default_rng(arguments.seed)
    elements = max(1, arguments.bytes // (8 * arguments.runs))
    runs = [sorted_run(random, elements) for _ in range(arguments.runs)]
    for _ in range(arguments.steps):
        with measure.step():
            for out in merged(runs, arguments.block):
                measure.digest(out)
    measure.finish(data_bytes=sum(run.nbytes for run in runs), runs=arguments.runs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
