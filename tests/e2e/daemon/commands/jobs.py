"""Programs that tests of the commands run as jobs. Each tells in a file how far it is.

    jobs.py work|hold|hoard|lazy PROGRESS
"""
import hashlib
import itertools
import os
import random
import signal
import sys
import time
from pathlib import Path

MIB = 2**20
BLOCKS, BLOCK_BYTES, BUDGET = 24, 16 * MIB, 512 * MIB
LEAST_ROUNDS = 8


def work(progress):
    """Tells each round in the file `progress`, until it is told to end and has done some. Then it prints how many there were, and
    a digest of all that was in its blocks."""
    blocks = [bytearray(random.Random(i).randbytes(BLOCK_BYTES)) for i in range(BLOCKS)]
    digest = b""
    for number in itertools.count():
        for i, block in enumerate(blocks):
            digest = hashlib.sha256(digest + hashlib.sha256(block).digest()).digest()
            at = (number * 37 + i) % 15 * MIB
            block[at:at + MIB] = random.Random(number * BLOCKS + i).randbytes(MIB)
        Path(progress).write_text(str(number + 1), encoding="utf-8")
        if is_at_end(progress, number + 1):
            return print(number + 1, digest.hex(), flush=True)


def end_of(progress):
    """The file that tells a job to end; a number in it: after so many rounds."""
    return Path(progress).with_suffix(".end")


def is_at_end(progress, rounds):
    end = end_of(progress)
    return end.exists() and rounds >= int(end.read_text(encoding="utf-8") or LEAST_ROUNDS)


def hold(progress):
    """Holds and frees: the one block that stays makes it a job, the freed ones are kept for reuse."""
    stays = bytearray(os.urandom(BLOCK_BYTES))
    freed = [bytearray(os.urandom(BLOCK_BYTES)) for _ in range(8)]
    del freed
    Path(progress).write_text("1", encoding="utf-8")
    signal.pause()
    del stays


def hoard(progress):
    """Holds more than its budget, frees most of it, and compares the rest with what it was, until it is told to end."""
    block = random.Random(0).randbytes(BLOCK_BYTES)
    blocks = [bytearray(block) for _ in range(32)]
    del blocks[3:]
    Path(progress).write_text("1", encoding="utf-8")
    for number in itertools.count(2):
        if any(held != block for held in blocks):
            raise ValueError("what it held is another")
        Path(progress).write_text(str(number), encoding="utf-8")
        if is_at_end(progress, number):
            return


def lazy(progress):
    """Uses one block, until it is told to end: then it uses as much as its budget allows, and waits again."""
    blocks = [bytearray(os.urandom(BLOCK_BYTES))]
    Path(progress).write_text("1", encoding="utf-8")
    while not end_of(progress).exists():
        time.sleep(0.1)
    blocks += [bytearray(os.urandom(BLOCK_BYTES)) for _ in range(15)]
    Path(progress).write_text("2", encoding="utf-8")
    while True:
        for block in blocks:
            block[::4096] = bytes(BLOCK_BYTES // 4096)
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit({"work": work, "hold": hold, "hoard": hoard, "lazy": lazy}[sys.argv[1]](sys.argv[2]))
