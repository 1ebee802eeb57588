#!/usr/bin/python3
"""Many arrays of some megabytes, as a cache of values has them: read from end to end twice, then in single cache lines
drawn at random from all of them. Or counters that all begin as one value, of which single lines are counted up from the
beginning.

    arrays.py --arrays 400 --bytes 4194304 --lookups 2000
    arrays.py --counters
"""
import sys

import numpy

import measured

PASSES = 2
LINE_WORDS = 8


def parse_arguments():
    parser = measured.parser(__doc__, steps=6)
    parser.add_argument("--arrays", type=measured.positive, default=400)
    parser.add_argument("--bytes", type=measured.positive, default=4 << 20, help="of each (4 MiB)")
    parser.add_argument("--lookups", type=measured.positive, default=2000, help="a step (2000)")
    parser.add_argument("--counters", action="store_true", help="all begin as one value, and lines are counted up")
    return parser.parse_args()


def count_up(line):
    line += 1
    return line.sum()


def main():
    arguments = parse_arguments()
    run = measured.Measured("arrays", arguments)
    random = numpy.random.default_rng(arguments.seed)
    words = max(2 * LINE_WORDS, arguments.bytes // 8)
    if arguments.counters:
        arrays = [numpy.full(words, 1 + number, dtype=numpy.int64) for number in range(arguments.arrays)]
    else:
        arrays = [random.integers(0, 1 << 60, words, dtype=numpy.int64) for _ in range(arguments.arrays)]
    for _ in range(0 if arguments.counters else PASSES):
        run.digest(numpy.array([array.sum() for array in arrays]))
    look_up = count_up if arguments.counters else numpy.sum
    for _ in range(arguments.steps):
        which = random.integers(0, len(arrays), arguments.lookups)
        where = random.integers(0, words - LINE_WORDS, arguments.lookups)
        with run.step():
            found = numpy.array([look_up(arrays[n][at:at + LINE_WORDS]) for n, at in zip(which, where)])
        run.digest(found)
    run.finish(data_bytes=len(arrays) * words * 8, lookups=arguments.lookups)
    return 0


if __name__ == "__main__":
    sys.exit(main())
