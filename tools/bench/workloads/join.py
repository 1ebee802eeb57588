#!/usr/bin/python3
"""A join of tables: random keys are looked for in a sorted one, and their values are summed by group.

The search is a bisection. Then the least 1,000 of a part of the values are found.

    join.py --rows 30000000      a key and a value of 8 bytes a row, and two thirds as many sums
"""
import sys

import numpy

import measured


def main():
    parser = measured.parser(__doc__, steps=4)
    parser.add_argument("--rows", type=measured.positive, default=30_000_000, help="of the sorted table (30,000,000)")
    parser.add_argument("--keys", type=measured.positive, default=400_000, help="that are looked for in a step (400,000)")
    arguments = parser.parse_args()
    run = measured.Measured("join", arguments)
    random = numpy.random.default_rng(arguments.seed)
    table = numpy.sort(random.integers(0, 1 << 60, arguments.rows))
    values = random.random(arguments.rows)
    sums = numpy.zeros(max(1, arguments.rows * 2 // 3))
    part = max(1, arguments.rows // 6)
    for step in range(arguments.steps):
        keys = random.integers(0, 1 << 60, arguments.keys)
        with run.step():
            found = numpy.minimum(numpy.searchsorted(table, keys), len(table) - 1)
            numpy.add.at(sums, found % len(sums), values[found])
            first = step % 6 * part
            least = numpy.partition(values[first:first + part], min(1000, part - 1))[:1000]
        run.digest(found)
        run.digest(numpy.sort(least))
    run.digest(sums)
    run.finish(data_bytes=table.nbytes + values.nbytes + sums.nbytes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
