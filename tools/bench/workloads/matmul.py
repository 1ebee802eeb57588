#!/usr/bin/python3
"""One product of large square matrices: dense, blocked by the library, each operand read several times.

    matmul.py --width 9000        three matrices of 309 MiB
"""
import sys

import numpy

import measured


def main():
    parser = measured.parser(__doc__, steps=1)
    parser.add_argument("--width", type=measured.positive, default=9000, help="rows and columns (9000: 309 MiB)")
    arguments = parser.parse_args()
    run = measured.Measured("matmul", arguments)
    random = numpy.random.default_rng(arguments.seed)
    shape = (arguments.width, arguments.width)
    left, right = random.random(shape, numpy.float32), random.random(shape, numpy.float32)
    for _ in range(arguments.steps):
        with run.step():
            product = numpy.matmul(left, right)
        run.digest(product)
    run.finish(data_bytes=left.nbytes + right.nbytes + product.nbytes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
