#!/usr/bin/python3
"""Random updates of single words, most of them in a hot part of the table (giga-updates per second).

90% of the updates fall into 20% of the table: its beginning, or with --scattered pages of 4 KiB drawn over all of it.
No word is updated twice in a step, so that the order of the updates does not matter. At the end the table is read
once for the digest; what that moves is in the bytes of every competitor alike.

    gups.py --bytes 2147483648 --updates 131072
"""
import sys

import numpy

import measured

HOT_UPDATES, HOT_TABLE = 0.9, 0.2
PAGE_WORDS = 512
PIECE_WORDS = 1 << 23
ODD = numpy.uint64(0x9E3779B97F4A7C15)


def parse_arguments():
    parser = measured.parser(__doc__, steps=5)
    parser.add_argument("--bytes", type=measured.positive, default=2 << 30, help="of the table (2 GiB)")
    parser.add_argument("--updates", type=measured.positive, default=1 << 17, help="a step (131072)")
    parser.add_argument("--scattered", action="store_true", help="spread the hot part over the table, page by page")
    return parser.parse_args()


def hot_and_cold(random, pages, scattered):
    order = random.permutation(pages) if scattered else numpy.arange(pages)
    hot = max(1, int(pages * HOT_TABLE))
    return order[:hot], order[hot:]


def words_to_update(random, hot, cold, updates):
    """Distinct words in random order."""
    many = int(updates * HOT_UPDATES)
    pages = numpy.concatenate([random.choice(hot, many), random.choice(cold, updates - many)])
    words = numpy.unique(pages * PAGE_WORDS + random.integers(0, PAGE_WORDS, updates))
    random.shuffle(words)
    return words


def main():
    arguments = parse_arguments()
    run = measured.Measured("gups", arguments)
    random = numpy.random.default_rng(arguments.seed)
    pages = max(10, arguments.bytes // (8 * PAGE_WORDS))
    hot, cold = hot_and_cold(random, pages, arguments.scattered)
    table = numpy.arange(pages * PAGE_WORDS, dtype=numpy.uint64)
    for _ in range(arguments.steps):
        words = words_to_update(random, hot, cold, arguments.updates)
        values = words.astype(numpy.uint64) * ODD
        with run.step():
            table[words] ^= values
    for start in range(0, len(table), PIECE_WORDS):
        run.digest(table[start:start + PIECE_WORDS])
    run.finish(data_bytes=table.nbytes, updates=arguments.updates, scattered=arguments.scattered)
    return 0


if __name__ == "__main__":
    sys.exit(main())
