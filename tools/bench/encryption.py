#!/usr/bin/python3
"""What encryption of pools costs: the same daemon, drive and job, with `encrypt = "yes"` and "no" in turn.

    terrace bench encryption --json result.json

Each round measures both, in the order that the round before did not have:

    write, read   of a file beside the pools, in pieces of 2 MiB, without what the page cache knows
    step          of a job that changes and sums up all its blocks in each step and keeps 60% of them in DRAM

What is compared is the ratio within a round. Without --pool the benchmark makes a file system in a file that can
encrypt (ext4; root and loop devices); with it, a directory that can: on such a file system or on dm-crypt, and
then --plain DIR names one in plain text on the same drive. What the kernel's ciphers and OpenSSL's do alone is beside it.
"""
import argparse
import contextlib
import json
import mmap
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import machine
from comparison import find_terrace
from sizes import format_size, parse_size

BLOCK, PIECE = 16 * 2**20, 2 * 2**20


def fail(what):
    sys.exit(f"terrace bench encryption: {what}")


def job(total):
    """Says how long each step took, a line each, until it is ended."""
    import numpy
    generator = numpy.random.default_rng(1)
    blocks = [generator.integers(0, 2**63, BLOCK // 8, dtype=numpy.uint64) for _ in range(total // BLOCK)]
    while True:
        start = time.monotonic()
        for block in blocks:
            block += numpy.uint64(1442695040888963407)
            block.sum()
        print(time.monotonic() - start, flush=True)


@contextlib.contextmanager
def file_system(options, directory):
    """Where pools are encrypted, and where they are not."""
    if options.pool:
        yield options.pool, options.plain or options.pool
        return
    image, mounted = Path(directory, "image"), Path(directory, "mounted")
    mounted.mkdir()
    with open(image, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, 3 * options.bytes)
    for command in (["mkfs.ext4", "-q", "-F", "-O", "encrypt", image], ["losetup", "--find", "--show", "--direct-io=on", image]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            fail(f"{command[0]}: {done.stderr.strip()}; name a directory that can encrypt with --pool")
    device = done.stdout.strip()
    try:
        # With inlinecrypt where the kernel has it: that keeps O_DIRECT.
        for choices in ("inlinecrypt", "defaults"):
            done = subprocess.run(["mount", "-o", choices, device, mounted], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                break
        else:
            fail(f"mount: {done.stderr.strip()}")
        try:
            yield mounted, mounted
        finally:
            subprocess.run(["umount", mounted], check=False)
    finally:
        subprocess.run(["losetup", "--detach", device], check=False)


class Daemon:
    def __init__(self, options, directory, pool, encrypts):
        self.options, self.socket, self.pool = options, Path(directory, "d.sock"), Path(pool)
        program = options.terrace.with_name("terraced")
        config = Path(directory, "terraced.toml")
        config.write_text(f'[pool]\nencrypt = "{"yes" if encrypts else "no"}"\n', encoding="utf-8")
        self.process = subprocess.Popen(
            [program, "--config", config, "--socket", self.socket, "--dram", str(2 * options.bytes), "--per-user", "100%",
             "--pool", pool, "--pool-size", str(2 * options.bytes), "--state", directory, "--log-level", "error"])
        for _ in range(100):
            if subprocess.run([options.terrace, "status", "--json", "--socket", self.socket], capture_output=True,
                              check=False).returncode == 0:
                return
            time.sleep(0.1)
        self.end()
        fail("its daemon does not answer; see its message above")

    def files_lie_in(self):
        return next(self.pool.glob(".terrace-encrypted-*"), self.pool)

    def end(self):
        self.process.terminate()
        self.process.wait()


def file_seconds(directory, total):
    """To write and to read so much, at the drive's pace."""
    buffer = mmap.mmap(-1, PIECE)
    buffer.write(os.urandom(PIECE))
    file = os.open(directory, os.O_TMPFILE | os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(file, 0, total)
        start = time.monotonic()
        for at in range(0, total, PIECE):
            os.pwrite(file, buffer, at)
        os.fsync(file)
        written = time.monotonic()
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        begin = time.monotonic()
        for at in range(0, total, PIECE):
            os.preadv(file, [buffer], at)
        return written - start, time.monotonic() - begin
    finally:
        os.close(file)


def step_seconds(options, daemon):
    with subprocess.Popen(
            [options.terrace, "run", "--socket", daemon.socket, "--dram", str(options.bytes * 60 // 100), "--compress", "off",
             "--", sys.executable, __file__, "--job", str(options.bytes)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            text=True) as process:
        seconds = []
        for _ in range(options.warm_steps + options.steps):
            line = process.stdout.readline()
            if not line:
                fail("the job ended; see its message above")
            seconds.append(float(line))
        process.terminate()
    return statistics.median(seconds[options.warm_steps:])


def measure(options, pool, encrypts):
    with tempfile.TemporaryDirectory() as directory:
        daemon = Daemon(options, directory, pool, encrypts)
        try:
            write, read = file_seconds(daemon.files_lie_in(), options.bytes)
            return {"write_bytes_per_second": options.bytes / write, "read_bytes_per_second": options.bytes / read,
                    "step_seconds": step_seconds(options, daemon)}
        finally:
            daemon.end()


def one_round(options, number, encrypted, plain):
    ways = [("encrypted", encrypted, True), ("plain", plain, False)]
    return {name: measure(options, pool, encrypts) for name, pool, encrypts in ways[::1 if number % 2 else -1]}


def kernel_ciphers():
    """Drivers of AES-XTS that the kernel has loaded; the one of the highest priority is used."""
    found = re.findall(r"name\s+: xts\(aes\)\ndriver\s+: (\S+)\n(?:.*\n)*?priority\s+: (\d+)", machine.text("/proc/crypto"))
    return [driver for driver, _ in sorted(found, key=lambda one: -int(one[1]))]


def openssl_bytes_per_second():
    """One core of AES-256-XTS in a program's own memory, if openssl is there."""
    try:
        done = subprocess.run(["openssl", "speed", "-seconds", "1", "-bytes", "65536", "-evp", "aes-256-xts", "-mr"],
                              capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    found = re.search(r"^\+F:\d+:[^:]+:([\d.]+)", done.stdout, re.MULTILINE)
    return float(found[1]) if found else None


def summary(rounds):
    result = {way: {name: statistics.median(one[way][name] for one in rounds) for name in rounds[0][way]}
              for way in ("encrypted", "plain")}
    result["encrypted_to_plain"] = {
        name: statistics.median(one["encrypted"][name] / one["plain"][name] for one in rounds) for name in rounds[0]["plain"]}
    return result


def report(options, result):
    print(f"a job of {format_size(options.bytes)} that keeps 60% in DRAM; medians of {options.rounds} rounds of both")
    for name, words in (("write_bytes_per_second", "write"), ("read_bytes_per_second", "read"), ("step_seconds", "step")):
        def shown(way, name=name):
            value = result[way][name]
            return f"{value:9.3f} s" if name == "step_seconds" else f"{format_size(int(value)):>9}/s"
        print(f"{words:<6} plain {shown('plain')}   encrypted {shown('encrypted')}   ratio {result['encrypted_to_plain'][name]:.2f}")
    print(f"kernel's AES-XTS: {', '.join(result['kernel_ciphers']) or 'none loaded'}")
    if result["openssl_bytes_per_second"]:
        print(f"OpenSSL's, one core, in memory: {format_size(int(result['openssl_bytes_per_second']))}/s")


def arguments():
    parser = argparse.ArgumentParser(prog="terrace bench encryption", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--bytes", type=parse_size, default=512 * 2**20, metavar="SIZE", help="give the job so much data (default 512M)")
    parser.add_argument("--steps", type=int, default=5, help="measure so many steps (default 5)")
    parser.add_argument("--warm-steps", type=int, default=2, help="run so many steps before these (default 2)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pool", metavar="DIR", help="encrypt pools in this directory (default: a file system in a file)")
    parser.add_argument("--plain", metavar="DIR", help="where --pool is on dm-crypt: use this directory for plain text")
    parser.add_argument("--terrace", type=Path, metavar="FILE", help="measure this terrace command")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args()


def main():
    options = arguments()
    if options.job:
        return job(options.job)
    options.terrace = find_terrace(options.terrace)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory, file_system(options, directory) as (encrypted, plain):
        rounds = [one_round(options, number, encrypted, plain) for number in range(options.rounds)]
        result = summary(rounds) | {"machine": machine.describe(encrypted), "kernel_ciphers": kernel_ciphers(),
                                    "openssl_bytes_per_second": openssl_bytes_per_second(), "rounds": rounds}
    report(options, result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
