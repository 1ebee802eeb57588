"""What the workloads of memory patterns share: timed steps, a digest of every result, one JSON line at the end.

A workload is an ordinary program that knows nothing of Terrace. Everything random is drawn from --seed, so that two
runs give the same digest whatever allocator, limit or swap lies underneath. What a step needs is drawn before its
clock starts, and what it gave is hashed after the clock has stopped. Every step prints a line as soon as it is over:
of a run that is ended early, those lines are what is known.
"""
import argparse
import contextlib
import hashlib
import json
import time


def positive(text):
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def parser(about, steps):
    """`about` is the module's documentation: its first line is the help's."""
    made = argparse.ArgumentParser(description=about.split("\n", 1)[0])
    made.add_argument("--steps", type=positive, default=steps, help=f"how often it is done ({steps})")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--json", metavar="FILE", help="write the last line here as well")
    return made


class Measured:
    def __init__(self, name, arguments):
        self.name, self.arguments = name, arguments
        self.steps, self.hash, self.start = [], hashlib.sha256(), time.perf_counter()

    @contextlib.contextmanager
    def step(self):
        start = time.perf_counter()
        yield
        self.steps.append({"seconds": time.perf_counter() - start})
        print(f"step {len(self.steps)}  {self.steps[-1]['seconds']:8.3f} s", flush=True)

    def digest(self, array):
        """Takes a contiguous array, or anything else with a buffer, into the digest."""
        self.hash.update(memoryview(array).cast("B"))

    def finish(self, **facts):
        """Prints the result. `facts` go into it: `data_bytes` is what the workload holds in memory and works on."""
        result = {"format": "terrace-workload", "version": 1, "workload": self.name, "seed": self.arguments.seed, **facts,
                  "steps": self.steps, "result_sha256": self.hash.hexdigest(),
                  "wall_seconds": time.perf_counter() - self.start, "peak_resident_bytes": peak_resident_bytes()}
        print(json.dumps(result), flush=True)
        if self.arguments.json:
            with open(self.arguments.json, "w", encoding="utf-8") as out:
                json.dump(result, out)


def peak_resident_bytes():
    # Not getrusage: its maximum survives exec and may be that of whoever started us.
    return status_bytes("VmHWM")


def resident_bytes():
    return status_bytes("VmRSS")


def status_bytes(name):
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    return None
