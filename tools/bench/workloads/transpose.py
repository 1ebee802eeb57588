#!/usr/bin/python3
"""A matrix made into its transpose, row by row of the result: each reads a column, and so a word of every row.

    transpose.py --width 9000        two matrices of 618 MiB
"""
import sys

import numpy

import measured


def main():
    parser = measured.parser(__doc__, steps=3)
    parser.add_argument("--width", type=measured.positive, default=9000, help="rows and columns of float64 (9000)")
    arguments = parser.parse_args()
    run = measured.Measured("transpose", arguments)
    matrix = numpy.random.default_rng(arguments.seed).random((arguments.width, arguments.width))
    for _ in range(arguments.steps):
        with run.step():
            matrix = numpy.ascontiguousarray(matrix.T)
        run.digest(matrix[::64].copy())
    run.finish(data_bytes=2 * matrix.nbytes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
