#!/usr/bin/python3
"""A job whose order of touches the kernel's swap serves faster has the kernel swap, and its data is right.

    kernel_swap.py swap     a swap file: the kernel has its turn
    kernel_swap.py none     a machine without swap: it never has

The job transforms a matrix along its columns, each of which needs all of the matrix, in less than half of its memory.
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(os.environ["TERRACE_SOURCE"])
sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(SOURCE / "tools/bench")]
from swapfile import SwapFile, SwapUnavailable, active
from waiting import Failed, check

LIMIT = "64M"
FAST = 2.0  # seconds a step, with which there is no reason to try swap
SWAP_BYTES = 3 << 30
SECONDS = 400


class Skipped(Exception):
    pass


def program(steps):
    return [sys.executable, SOURCE / "tools/bench/workloads/fft.py", "--rows", "4096", "--width", "3072", "--steps", str(steps)]


def result(output):
    lines = [line for line in output.splitlines() if line.startswith("{")]
    check(lines, f"no result:\n{output}")
    return json.loads(lines[-1])


def check_equal(limited, steps):
    stock = result(run(program(steps)).stdout)
    check(result(limited.stdout)["result_sha256"] == stock["result_sha256"], "the result is another one")


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    check(done.returncode == 0, f"{' '.join(map(str, command))}\nexit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def run_limited(directory, steps):
    probe = subprocess.run([os.environ["TERRACE_BIN"], "run", "--limit", LIMIT, "--pool", directory, "--", "true"],
                           capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        raise Skipped((probe.stderr.strip() or "no limit can be set here").splitlines()[-1])
    summary = Path(directory, "summary.json")
    command = [os.environ["TERRACE_BIN"], "run", "--limit", LIMIT, "--pool", directory, "--json-summary", summary, "--"]
    done = run(command + program(steps))
    counters = json.loads(summary.read_text(encoding="utf-8"))["counters"]
    check(counters.get("pager") == "active", f"the pager is not active:\n{done.stderr}")
    check(counters["evicted_bytes"] > 0 and counters["lost_runs"] == 0 and counters["checksum_failures"] == 0, counters)
    return done, counters


def with_swap(directory):
    if active():
        raise Skipped("the machine has swap of its own")
    steps = 10
    try:
        with SwapFile(directory, SWAP_BYTES):
            done, counters = run_limited(directory, steps)
    except SwapUnavailable as error:
        raise Skipped(str(error)) from error
    check_equal(done, steps)
    slowest = max(step["seconds"] for step in result(done.stdout)["steps"])
    if counters["kernel_swap_ns"] == 0 and slowest < FAST:
        raise Skipped(f"the pager is fast enough here: {slowest:.1f} s a step")
    check(counters["kernel_swap_ns"] > 0, f"the kernel never had its turn:\n{counters}\n{done.stdout}{done.stderr}")
    print(f"the kernel swapped for {counters['kernel_swap_ns'] / 1e9:.0f} s")


def without_swap(directory):
    if active():
        raise Skipped("the machine has swap of its own")
    done, counters = run_limited(directory, 1)
    check(counters["kernel_swap_ns"] == 0, counters)
    check_equal(done, 1)


def main():
    how = sys.argv[1]
    # Not in a file system in memory, where swap files cannot lie.
    with tempfile.TemporaryDirectory(prefix="terrace-swap-", dir="/var/tmp") as directory:
        try:
            {"swap": with_swap, "none": without_swap}[how](directory)
        except Skipped as reason:
            print(f"SKIP: {reason}")
            return 77
        except (Failed, subprocess.TimeoutExpired) as failure:
            print(f"FAIL: {failure}")
            return 1
    print(f"ok: {how}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
