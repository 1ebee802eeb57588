#!/usr/bin/python3
"""How fast a paused job leaves memory and comes back, beside plain O_DIRECT transfers of the same size.

    terrace bench pause --json result.json

The job fills its memory anew before each pause, so that every byte has to be written, and passes over all of it once
after each resume. Out is `terrace pause` as a user waits for it, from its start to its end; back is from the start of
`terrace resume` until the job has touched its last page. The baseline writes and reads a file of that size in the same
directory, in pieces of 2 MiB, four at a time. Without compression on our side: it would move fewer bytes.
"""
import argparse
import json
import mmap
import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import machine
from comparison import find_terrace
from sizes import format_size, parse_size

PIECE = 2 * 2**20
BLOCK = 64 * 2**20
IN_FLIGHT = 4


def job(total):
    """Does what it reads on standard input, a word a line, and says when it is done."""
    blocks = [bytearray(BLOCK) for _ in range(total // BLOCK)]
    for line in sys.stdin:
        if line.strip() == "fill":
            for block in blocks:
                block[:] = os.urandom(BLOCK)
        touched = sum(sum(block[::mmap.PAGESIZE]) for block in blocks)
        print(touched, flush=True)


def plain(directory, total):
    """Seconds to write and to read a new file of that size."""
    fd = os.open(directory, os.O_TMPFILE | os.O_RDWR | os.O_DIRECT, 0o600)
    pieces = [mmap.mmap(-1, PIECE) for _ in range(IN_FLIGHT)]
    for piece in pieces:
        piece.write(os.urandom(PIECE))
    try:
        return [transfer(call, fd, pieces, total) for call in (os.pwritev, os.preadv)]
    finally:
        os.close(fd)


def transfer(call, fd, pieces, total):
    def lane(number):
        for at in range(number * PIECE, total, IN_FLIGHT * PIECE):
            if call(fd, [pieces[number]], at) != PIECE:
                raise OSError(f"a short transfer at {at}")

    start = time.monotonic()
    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        list(pool.map(lane, range(IN_FLIGHT)))
    return time.monotonic() - start


class Job:
    def __init__(self, options):
        self.options = options
        self.name = f"bench-pause-{os.getpid()}"
        self.environment = {name: value for name, value in os.environ.items() if name != "TERRACE_SOCKET"}
        self.process = subprocess.Popen(
            [options.terrace, "run", "--private", "--dram", str(options.bytes * 3 // 2), "--pool", options.pool,
             "--compress", "off", "--name", self.name, "--", sys.executable, __file__, "--job", str(options.bytes)],
            env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def done(self):
        return int(self.process.stdout.readline())

    def command(self, verb):
        done = subprocess.run([self.options.terrace, verb, self.name, "--json"], env=self.environment,
                              stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(done.stdout)

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def one_round(one, options):
    write, read = plain(options.pool, options.bytes)
    one.tell("fill")
    before = one.done()
    start = time.monotonic()
    paused = one.command("pause")
    out = time.monotonic() - start
    start = time.monotonic()
    one.command("resume")
    one.tell("pass")
    if one.done() != before:
        sys.exit("bench pause: the job came back with other bytes")
    back = time.monotonic() - start
    return {"out_seconds": out, "write_seconds": write, "back_seconds": back, "read_seconds": read,
            "previous_resident_bytes": paused["previous_resident_bytes"], "resident_bytes": paused["resident_bytes"]}


def summary(rounds):
    median = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
    median["out_ratio"] = statistics.median(one["out_seconds"] / one["write_seconds"] for one in rounds)
    median["back_ratio"] = statistics.median(one["back_seconds"] / one["read_seconds"] for one in rounds)
    return median


def report(options, median):
    print(f"{format_size(options.bytes)}, medians of {options.rounds} rounds")
    for ours, baseline in (("out", "write"), ("back", "read")):
        cells = [f"{seconds:6.2f} s {options.bytes / 2**30 / seconds:6.2f} GiB/s"
                 for seconds in (median[f"{ours}_seconds"], median[f"{baseline}_seconds"])]
        print(f"{ours:<5} {cells[0]}   plain {baseline:<5} {cells[1]}   ratio {median[f'{ours}_ratio']:.2f}")


def arguments():
    parser = argparse.ArgumentParser(prog="terrace bench pause", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--bytes", type=parse_size, default=2**30, metavar="SIZE", help="give the job so much data (default 1G)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pool", default="/var/tmp", metavar="DIR", help="put the pool into this directory (default /var/tmp)")
    parser.add_argument("--terrace", type=Path, metavar="FILE", help="measure this terrace command")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args()


def main():
    options = arguments()
    if options.job:
        return job(options.job)
    options.terrace = find_terrace(options.terrace)
    one = Job(options)
    rounds = [one_round(one, options) for _ in range(options.rounds)]
    one.end()
    median = summary(rounds)
    report(options, median)
    if options.json:
        document = {"format": "terrace-bench-pause", "version": 1, "machine": machine.describe(options.pool),
                    "bytes": options.bytes, "medians": median, "rounds": rounds}
        commit = machine.commit(Path(__file__).parent)
        document |= {"commit": commit} if commit else {}
        options.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
