#!/usr/bin/python3
"""A two-dimensional Fourier transform in strips: along the rows, and then along the columns, of which each crosses all of
the matrix.

A step transforms every row and every column of one matrix of complex64 in place, and the digest is of every 64th row.

    fft.py --width 8192        512 MiB
"""
import sys

import numpy

import measured

STRIP = 256


def main():
    parser = measured.parser(__doc__, steps=1)
    parser.add_argument("--width", type=measured.positive, default=8192, help="columns, and rows (8192: 512 MiB)")
    parser.add_argument("--rows", type=measured.positive, help="rows, if not as many as columns")
    arguments = parser.parse_args()
    run = measured.Measured("fft", arguments)
    random = numpy.random.default_rng(arguments.seed)
    matrix = numpy.empty((arguments.rows or arguments.width, arguments.width), numpy.complex64)
    strips_of_rows, strips_of_columns = ([slice(begin, begin + STRIP) for begin in range(0, size, STRIP)] for size in matrix.shape)
    for rows in strips_of_rows:
        matrix[rows] = random.standard_normal(matrix[rows].shape)
    for _ in range(arguments.steps):
        with run.step():
            for rows in strips_of_rows:
                matrix[rows] = numpy.fft.fft(matrix[rows], axis=1, norm="ortho")
            for columns in strips_of_columns:
                matrix[:, columns] = numpy.fft.fft(matrix[:, columns], axis=0, norm="ortho")
        run.digest(matrix[::64].copy())
    run.finish(data_bytes=matrix.nbytes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
