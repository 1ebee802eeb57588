#!/usr/bin/python3
"""A large array of zeros of which little is touched: what stays untouched should cost neither time nor memory.

A step makes the array and writes one byte at each of the places drawn; then the resident memory is read.

    sparse.py --bytes 4294967296 --touches 2048
"""
import sys

import numpy

import measured


def main():
    parser = measured.parser(__doc__, steps=3)
    parser.add_argument("--bytes", type=measured.positive, default=4 << 30, help="of the array (4 GiB)")
    parser.add_argument("--touches", type=measured.positive, default=2048)
    arguments = parser.parse_args()
    run = measured.Measured("sparse", arguments)
    random = numpy.random.default_rng(arguments.seed)
    before, resident = measured.resident_bytes(), []
    for _ in range(arguments.steps):
        places = random.integers(0, arguments.bytes, arguments.touches).tolist()
        with run.step():
            array = numpy.zeros(arguments.bytes, numpy.uint8)
            for place in places:
                array[place] = 1
        resident.append(measured.resident_bytes() - before)
        run.digest(array[places])
        del array
    run.finish(data_bytes=arguments.bytes, touches=arguments.touches, resident_bytes=resident)
    return 0


if __name__ == "__main__":
    sys.exit(main())
