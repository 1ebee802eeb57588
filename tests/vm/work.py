#!/usr/bin/python3
"""A job: holds blocks of bytes of which no two pages are alike, looks at each of them round after round, and changes a part of it.

    work.py PROGRESS MIB     PROGRESS: the file that tells how many rounds were done; PROGRESS.end ends the job

It keeps the checksum of each block beside it, in memory that Terrace does not move, so that a byte that is not what was written
last is found at once. Ends with 0 and "right" when all were right to the end.
"""
import os
import random
import sys
import zlib

BLOCK_BYTES = 4 << 20
CHANGED_BYTES = 64 << 10


def all_blocks(count):
    """Random bytes that each block begins at another place: to draw all of them takes an emulated processor ten times as long."""
    drawn = random.Random(1).randbytes(BLOCK_BYTES)
    for number in range(count):
        first = number * 40961 % BLOCK_BYTES
        yield bytearray(drawn[first:] + drawn[:first])


def changed(block, number):
    """Writes to one place of the block, another one each time, and sums the block up anew."""
    at = number * 37 % 64 * CHANGED_BYTES
    block[at:at + CHANGED_BYTES] = random.Random(number).randbytes(CHANGED_BYTES)
    return zlib.crc32(block)


def tell(progress, rounds):
    """The file is replaced as a whole: who reads it never finds half a number."""
    with open(progress + ".new", "w", encoding="utf-8") as file:
        file.write(str(rounds))
    os.rename(progress + ".new", progress)


def main(progress, mib):
    blocks = list(all_blocks(int(mib) * (1 << 20) // BLOCK_BYTES))
    sums = [zlib.crc32(block) for block in blocks]
    rounds = 0
    while True:
        for i, block in enumerate(blocks):
            if zlib.crc32(block) != sums[i]:
                return print(f"wrong: block {i} in round {rounds}", flush=True) or 1
            if (i + rounds) % 3 == 0:
                sums[i] = changed(block, rounds * len(blocks) + i)
        rounds += 1
        tell(progress, rounds)
        if os.path.exists(progress + ".end"):
            return print("right", flush=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
