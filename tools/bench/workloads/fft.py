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
    parser.add_argument("--width", type=measured.positive, default=8192, help="rows and columns (8192: 512 MiB)")
    arguments = parser.parse_args()
    run = measured.Measured("fft", arguments)
    random = numpy.random.default_rng(arguments.seed)
    matrix = numpy.empty((arguments.width, arguments.width), numpy.complex64)
    strips = [slice(begin, begin + STRIP) for begin in range(0, arguments.width, STRIP)]
    for rows in strips:
        matrix[rows] = random.standard_normal(matrix[rows].shape)
    for _ in range(arguments.steps):
        with run.step():
            for rows in strips:
                matrix[rows] = numpy.fft.fft(matrix[rows], axis=1, norm="ortho")
            for columns in strips:
                matrix[:, columns] = numpy.fft.fft(matrix[:, columns], axis=0, norm="ortho")
        run.digest(matrix[::64].copy())
    run.finish(data_bytes=matrix.nbytes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
