#!/usr/bin/python3
"""The best alignment of two sequences (Needleman and Wunsch, 1970): a table filled by rows, then one way through it.

    alignment.py --length 14000      a table of 748 MiB

The table begins as zeroes, of which the first column touches one page in fourteen, so that most of what leaves then is
zeroes. Rows are made from the rows before them. The way back reads a few words of each row.
"""
import sys

import numpy

import measured

SAME, OTHER, GAP = 2, -1, -1


def fill(table, first, second):
    """The best score of each pair of beginnings. Of gaps along a row the running maximum takes care."""
    steps = numpy.arange(len(second) + 1, dtype=numpy.int32)
    table[0] = GAP * steps
    table[:, 0] = GAP * numpy.arange(len(first) + 1, dtype=numpy.int32)
    row = numpy.empty_like(steps)
    for i, letter in enumerate(first, 1):
        above = table[i - 1]
        row[0] = GAP * i
        numpy.maximum(above[:-1] + numpy.where(second == letter, SAME, OTHER), above[1:] + GAP, out=row[1:])
        table[i] = numpy.maximum.accumulate(row - GAP * steps) + GAP * steps


def way_back(table, first, second):
    """0: a pair, 1: a gap in the second sequence, 2: one in the first; from the end on."""
    way = []
    i, j = len(first), len(second)
    while i and j:
        pair = SAME if first[i - 1] == second[j - 1] else OTHER
        move = 0 if table[i, j] == table[i - 1, j - 1] + pair else 1 if table[i, j] == table[i - 1, j] + GAP else 2
        i, j = i - (move != 2), j - (move != 1)
        way.append(move)
    return numpy.array(way, dtype=numpy.int8)


def main():
    parser = measured.parser(__doc__, steps=3)
    parser.add_argument("--length", type=measured.positive, default=14_000, help="of both sequences (14,000)")
    arguments = parser.parse_args()
    run = measured.Measured("alignment", arguments)
    random = numpy.random.default_rng(arguments.seed)
    first = random.integers(0, 4, arguments.length, dtype=numpy.int8)
    table = None
    for _ in range(arguments.steps):
        second = numpy.where(random.random(arguments.length) < 0.2,
                             random.integers(0, 4, arguments.length, dtype=numpy.int8), first)
        with run.step():
            table = None  # before the next one is made
            table = numpy.zeros((arguments.length + 1, arguments.length + 1), numpy.int32)
            fill(table, first, second)
            way = way_back(table, first, second)
        run.digest(way)
    run.finish(data_bytes=table.nbytes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
