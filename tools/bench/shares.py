#!/usr/bin/python3
"""Two jobs under one budget: what sharing costs each, and whether memory follows weights.

    terrace bench shares --json result.json

Both jobs change and sum up all their blocks in each step, and would use more than there is. A daemon of the
benchmark's own has a budget of twice a share. Six runs, in turn, as often as --rounds says:

    plain      each job by itself without Terrace, and then both at once: what the machine's processors, caches and
               memory cost two jobs that share nothing else
    alone      each job by itself, with a share as its budget
    fixed      both at once, each with a share as its budget: the same contention for processors and the drive, and
               nothing to divide
    together   both at once without a budget: the daemon divides
    weighted   the same with weights of 3 and 1

Sums of the jobs' median step times are compared: together with fixed (the cost of dividing), and with alone. The
latter has all that two jobs cost each other, so the same ratio of the plain jobs stands beside it, and what is left
without that. Of the weighted run it is what each job had resident.

--work says how much a job computes for each byte that it moves. With little of it one job alone keeps the drive
busy, and two take twice as long whoever divides the memory. A job computes in tiles that its processor's own cache
holds, as products of matrices do: otherwise the two jobs share the last cache with all that the drive moves.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import machine
from comparison import find_terrace
from sizes import format_size, parse_size

BLOCK = 16 * 2**20
WEIGHTS = {"heavy": 3, "light": 1}
BOUND = 0.10
PLAIN = None  # instead of words for `terrace run`


def job(total, work, tile_bytes):
    """Changes each word `work` times in a step. Says how long each step took, a line each, until it is ended."""
    import numpy
    generator = numpy.random.default_rng(1)
    blocks = [generator.integers(0, 2**63, BLOCK // 8, dtype=numpy.uint64) for _ in range(total // BLOCK)]
    while True:
        start = time.monotonic()
        for block in blocks:
            for first in range(0, BLOCK // 8, tile_bytes // 8):
                tile = block[first:first + tile_bytes // 8]
                for _ in range(work):
                    tile *= numpy.uint64(6364136223846793005)
                    tile += numpy.uint64(1442695040888963407)
                tile.sum()
        print(time.monotonic() - start, flush=True)


class Daemon:
    def __init__(self, options, directory):
        self.options = options
        self.socket = Path(directory) / "d.sock"
        terrace = options.terrace
        candidates = terrace.with_name("terraced"), terrace.parents[1] / "sbin/terraced"
        program = next((path for path in candidates if path.is_file()), None)
        if program is None:
            sys.exit(f"terrace bench shares: no terraced at {candidates[0]} or {candidates[1]}; install it beside terrace")
        config = Path(directory) / "terraced.toml"
        config.write_text("", encoding="utf-8")
        self.process = subprocess.Popen(
            [program, "--config", config, "--socket", self.socket, "--dram", str(2 * options.share_bytes),
             "--per-user", "100%", "--pool", options.pool, "--state", directory, "--log-level", "error"])
        for _ in range(100):
            if self.ask("status") is not None:
                return
            time.sleep(0.1)
        self.end()
        sys.exit("terrace bench shares: its daemon does not answer; see its message above")

    def ask(self, verb):
        done = subprocess.run([self.options.terrace, verb, "--json", "--socket", self.socket], capture_output=True,
                              text=True, check=False)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def resident(self):
        return {row["job"]: row["resident_bytes"] for row in self.ask("jobs")["jobs"]}

    def end(self):
        self.process.terminate()
        self.process.wait()


class Job:
    def __init__(self, options, daemon, name, words):
        self.name = name
        under = [options.terrace, "run", "--socket", daemon.socket, "--compress", "off", "--name", name]
        self.process = subprocess.Popen(
            [*([] if words is PLAIN else [*under, *words, "--"]), sys.executable, __file__, "--job", str(options.bytes),
             "--work", str(options.work), "--tile", str(options.tile)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.seconds = []

    def steps(self, count):
        for _ in range(count):
            line = self.process.stdout.readline()
            if not line:
                sys.exit(f"terrace bench shares: the job {self.name} ended; see its message above")
            self.seconds.append(float(line))

    def end(self):
        self.process.terminate()
        self.process.wait()


def run(options, words_of):
    """Median step times and mean resident bytes of jobs that run at once. Steps count while all of them run."""
    with tempfile.TemporaryDirectory(dir=options.pool) as directory:
        daemon = Daemon(options, directory)
        jobs = [Job(options, daemon, name, words) for name, words in words_of.items()]
        samples = []
        try:
            for steps, is_measured in ((options.warm_steps, False), (options.steps, True)):
                counters = [threading.Thread(target=one.steps, args=(steps,)) for one in jobs]
                for counter in counters:
                    counter.start()
                while all(counter.is_alive() for counter in counters) or is_measured and not samples:
                    samples += [daemon.resident()] if is_measured else []
                    time.sleep(0.1)
                for counter in counters:
                    counter.join()
            if any(len(one.seconds) < options.warm_steps + options.steps for one in jobs):
                sys.exit("terrace bench shares: a job ended early; see above")
            return {one.name: {"step_seconds": statistics.median(one.seconds[options.warm_steps:]),
                               "resident_bytes": statistics.mean(sample.get(one.name, 0) for sample in samples)}
                    for one in jobs}
        finally:
            for one in jobs:
                one.end()
            daemon.end()


def one_round(options):
    share = ["--dram", str(options.share_bytes)]

    def by_itself(words):
        return {name: result for each in WEIGHTS for name, result in run(options, {each: words}).items()}

    return {"plain_alone": by_itself(PLAIN),
            "plain": run(options, {name: PLAIN for name in WEIGHTS}),
            "alone": by_itself(share),
            "fixed": run(options, {name: share for name in WEIGHTS}),
            "together": run(options, {name: [] for name in WEIGHTS}),
            "weighted": run(options, {name: ["--weight", str(weight)] for name, weight in WEIGHTS.items()})}


def summary(rounds):
    def total(one, way):
        return sum(row["step_seconds"] for row in one[way].values())

    resident = [{name: row["resident_bytes"] for name, row in one["weighted"].items()} for one in rounds]
    result = {f"{way}_seconds": statistics.median(total(one, way) for one in rounds)
              for way in ("plain_alone", "plain", "alone", "fixed", "together")}
    result["plain_to_alone"] = statistics.median(total(one, "plain") / total(one, "plain_alone") for one in rounds)
    for way in ("alone", "fixed"):
        result[f"together_to_{way}"] = statistics.median(total(one, "together") / total(one, way) for one in rounds)
    result["together_to_alone_beside_plain"] = statistics.median(
        total(one, "together") / total(one, "alone") / (total(one, "plain") / total(one, "plain_alone")) for one in rounds)
    result["resident_ratio"] = statistics.median(one["heavy"] / one["light"] for one in resident)
    result |= {f"{name}_resident_bytes": statistics.median(one[name] for one in resident) for name in WEIGHTS}
    wanted = WEIGHTS["heavy"] / WEIGHTS["light"]
    result["within_bounds"] = {name: result[name] <= 1 + BOUND
                               for name in ("together_to_alone", "together_to_alone_beside_plain", "together_to_fixed")}
    result["within_bounds"]["resident_ratio"] = abs(result["resident_ratio"] / wanted - 1) <= BOUND
    return result


def report(options, result):
    def verdict(name):
        return "reached" if result["within_bounds"][name] else "missed"

    print(f"two jobs of {format_size(options.bytes)} each, shares of {format_size(options.share_bytes)}, "
          f"{os.cpu_count()} processors; medians of {options.rounds} rounds")
    print(f"sum of step times   alone {result['alone_seconds']:.3f} s   fixed {result['fixed_seconds']:.3f} s   "
          f"together {result['together_seconds']:.3f} s")
    print(f"without Terrace     alone {result['plain_alone_seconds']:.3f} s   together {result['plain_seconds']:.3f} s")
    for text, name in (("together : alone", "together_to_alone"), ("   the same of plain jobs", "plain_to_alone"),
                       ("   without that", "together_to_alone_beside_plain"), ("together : fixed", "together_to_fixed")):
        bound = f"   at most {1 + BOUND:.2f}: {verdict(name)}" if name in result["within_bounds"] else ""
        print(f"{text:<26}{result[name]:5.2f}{bound}")
    print(f"{'resident 3 : 1':<26}{result['resident_ratio']:5.2f}   within {BOUND:.0%}: {verdict('resident_ratio')}   "
          f"({format_size(int(result['heavy_resident_bytes']))} and {format_size(int(result['light_resident_bytes']))})")


def arguments():
    parser = argparse.ArgumentParser(prog="terrace bench shares", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--bytes", type=parse_size, default=512 * 2**20, metavar="SIZE", help="give each job so much data (default 512M)")
    parser.add_argument("--work", type=int, default=180, metavar="N", help="change each word N times in a step (default 180)")
    parser.add_argument("--tile", type=parse_size, default=2**18, metavar="SIZE",
                        help="change a part of this size --work times before the next part of a block of 16 MiB (default 256K)")
    parser.add_argument("--share", type=int, default=60, metavar="PCT", help="give each job a share of so many percent of its data (default 60)")
    parser.add_argument("--steps", type=int, default=8, help="measure so many steps (default 8)")
    parser.add_argument("--warm-steps", type=int, default=3, help="run so many steps before these (default 3)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pool", default="/var/tmp", metavar="DIR", help="put the pools into this directory (default /var/tmp)")
    parser.add_argument("--terrace", type=Path, metavar="FILE", help="measure this terrace command")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    if options.work < 1:
        parser.error("--work must be at least 1")
    if not 4096 <= options.tile <= BLOCK or BLOCK % options.tile:
        parser.error("--tile must be a power of two from 4K to 16M")
    if not 10 <= options.share <= 66:
        parser.error("--share must be 10 to 66, so that three quarters of the budget are less than a job")
    options.share_bytes = options.bytes * options.share // 100
    return options


def main():
    options = arguments()
    if options.job:
        return job(options.job, options.work, options.tile)
    options.terrace = find_terrace(options.terrace)
    rounds = [one_round(options) for _ in range(options.rounds)]
    result = summary(rounds)
    report(options, result)
    if options.json:
        document = {"format": "terrace-bench-shares", "version": 1, "machine": machine.describe(options.pool),
                    "bytes": options.bytes, "share_bytes": options.share_bytes, "steps": options.steps,
                    "work": options.work, "tile_bytes": options.tile, "medians": result, "rounds": rounds}
        commit = machine.commit(Path(__file__).parent)
        document |= {"commit": commit} if commit else {}
        options.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
