"""How fast the drive is without Terrace: direct writes and reads of 1 MiB at eight places at once, in one file.

What the NVMe tier's speed is compared with. The file has no name, so nothing is left behind however this ends.
Raises OSError where the file system has no direct I/O (tmpfs), for there is no drive to speak of.
"""
import mmap
import os
import time
from concurrent.futures import ThreadPoolExecutor

BLOCK = 1 << 20
DEPTH = 8


def drive_rates(directory, size):
    """{"write", "read"}: bytes a second of `size` bytes, rounded down to whole blocks."""
    file = os.open(directory, os.O_TMPFILE | os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(file, 0, size)
        _rate(os.pwritev, file, size)  # the first write of a block also enters it in the file system's books
        return {"write": _rate(os.pwritev, file, size), "read": _rate(os.preadv, file, size)}
    finally:
        os.close(file)


def _rate(transfer, file, size):
    blocks = size // BLOCK

    def worker(number):
        buffer = mmap.mmap(-1, BLOCK)
        buffer.write(os.urandom(BLOCK))  # drives compress zeros
        for block in range(number, blocks, DEPTH):
            if transfer(file, [buffer], block * BLOCK) != BLOCK:
                raise OSError(f"short transfer at {block * BLOCK}")

    start = time.perf_counter()
    with ThreadPoolExecutor(DEPTH) as workers:
        list(workers.map(worker, range(DEPTH)))
    os.fsync(file)
    return blocks * BLOCK / (time.perf_counter() - start)
