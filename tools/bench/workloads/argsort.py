#!/usr/bin/python3
"""Words sorted by an index of them: comparisons read words at random, the index is swept again and again.

    argsort.py --words 25000000      the words, the index, and the sorted words of 191 MiB each
"""
import sys

import numpy

import measured


def main():
    parser = measured.parser(__doc__, steps=3)
    parser.add_argument("--words", type=measured.positive, default=25_000_000, help="of 8 bytes (25,000,000)")
    arguments = parser.parse_args()
    run = measured.Measured("argsort", arguments)
    words = numpy.random.default_rng(arguments.seed).integers(0, 1 << 60, arguments.words)
    for _ in range(arguments.steps):
        with run.step():
            order = numpy.argsort(words)
            found = words[order]
        run.digest(found[::1000].copy())
        words = numpy.roll(words, 7)
    run.finish(data_bytes=4 * words.nbytes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
