#!/usr/bin/python3
"""Random rows of a large table, a few of them often: the embedding of a recommender.

A step gathers rows drawn from Zipf's law; the ranks are permuted over the rows, so that popular rows are not
neighbours. With --update the rows are also written back, and the digest takes in every row that was written.

    embedding.py --rows 3062000 --lookups 40960        1.46 GiB
"""
import sys

import numpy

import measured

ROW_FLOATS = 128  # 512 bytes
PIECE_ROWS = 65536


def parse_arguments():
    parser = measured.parser(__doc__, steps=6)
    parser.add_argument("--rows", type=measured.positive, default=3_062_000, help="of 512 bytes (3062000: 1.46 GiB)")
    parser.add_argument("--lookups", type=measured.positive, default=40_960, help="rows a step (40960)")
    parser.add_argument("--exponent", type=float, default=1.05, help="of Zipf's law (1.05)")
    parser.add_argument("--update", action="store_true", help="write the rows back")
    return parser.parse_args()


def draw(random, arguments):
    """The rows of every step. Drawn before the table is made, so that the law's 24 bytes a row are free again."""
    weight = numpy.arange(1, arguments.rows + 1, dtype=numpy.float64) ** -arguments.exponent
    law = numpy.cumsum(weight)
    ranks = numpy.searchsorted(law, random.random((arguments.steps, arguments.lookups)) * law[-1])
    rows = random.permutation(arguments.rows)
    return rows[numpy.minimum(ranks, arguments.rows - 1)]


def table_of(random, rows):
    table = numpy.empty((rows, ROW_FLOATS), numpy.float32)
    for start in range(0, rows, PIECE_ROWS):
        random.random(dtype=numpy.float32, out=table[start:start + PIECE_ROWS])
    return table


def update(table, rows):
    """As an optimizer would; no row twice, as the last of several writes would win."""
    table[rows] = table[rows] * numpy.float32(0.99) + numpy.float32(0.001)


def main():
    arguments = parse_arguments()
    run = measured.Measured("embedding", arguments)
    random = numpy.random.default_rng(arguments.seed)
    steps = draw(random, arguments)
    table = table_of(random, arguments.rows)
    gathered = numpy.empty((arguments.lookups, ROW_FLOATS), numpy.float32)
    for rows in steps:
        distinct = numpy.unique(rows) if arguments.update else None
        with run.step():
            table.take(rows, axis=0, out=gathered, mode="clip")
            if arguments.update:
                update(table, distinct)
        run.digest(gathered)
    if arguments.update:
        written = numpy.unique(steps)
        for start in range(0, len(written), PIECE_ROWS):
            run.digest(table[written[start:start + PIECE_ROWS]])
    run.finish(data_bytes=table.nbytes, update=arguments.update)
    return 0


if __name__ == "__main__":
    sys.exit(main())
