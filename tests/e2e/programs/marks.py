#!/usr/bin/python3
"""terrace.mark() in a job whose loop allocates nothing: steps are counted as the job says them.

    marks.py steps      under `terrace run`: one step for each mark, from the third on
    marks.py plain      without Terrace it does nothing, and bad names are refused either way
"""
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # waiting.py
from waiting import check

MIB = 2**20
BLOCKS, BLOCK_BYTES, BUDGET = 24, 8 * MIB, 96 * MIB
STEPS = 12
sys.path.insert(0, str(Path(os.environ["TERRACE_SOURCE"]) / "liballoc/python"))


def job(marks):
    """Reads all blocks in order, in each step; halfway it says so."""
    import terrace
    blocks = [memoryview(bytearray(BLOCK_BYTES)) for _ in range(BLOCKS)]
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(blocks))  # never freed: to free them would be to leave the step
    for i, block in enumerate(blocks):
        for at in range(0, BLOCK_BYTES, 4096):
            block[at] = (i + at // 4096) % 251
    for block in blocks:  # what has left comes back: the agent knows then that memory is short, and counts steps
        for at in range(0, BLOCK_BYTES, 4096):
            block[at] = block[at]
    wrong = 0
    for _ in range(STEPS):
        if marks:
            terrace.mark()
        for i, block in enumerate(blocks):
            if marks and i == BLOCKS // 2:
                terrace.mark("half")
            wrong += any(block[at] != (i + at // 4096) % 251 for at in range(0, BLOCK_BYTES, 4096))
    for i, block in enumerate(blocks):  # the agent reads every note before it serves a touch, the last marks too
        wrong += any(block[at] != (i + at // 4096) % 251 for at in range(0, BLOCK_BYTES, 4096))
    time.sleep(0.3)  # the agent publishes what it has counted ten times a second, and not as the process ends
    print(f"wrong: {wrong}")


def run(directory, how):
    summary = Path(directory) / "summary.json"
    command = [os.environ["TERRACE_BIN"], "run", "--private", "--policy", "reactive", "--dram", str(BUDGET), "--pool", directory,
               "--json-summary", summary, "--", sys.executable, __file__, how]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    check(done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}{done.stderr}")
    check(done.stdout.splitlines()[-1] == "wrong: 0", f"wrong data: {done.stdout}{done.stderr}")
    counters = json.loads(summary.read_text())["counters"]
    if counters.get("pager") != "active":
        print(f"SKIP: no pager here: {done.stderr}")
        sys.exit(77)
    return counters


def test_steps(directory):
    marked = run(directory, "--marked")
    check(marked["marks"] == 2 * STEPS, f"{2 * STEPS} marks were made: {marked}")
    check(STEPS - 4 <= marked["steps"] < STEPS, f"the period that begins at each mark from the third on: {marked}")
    check(marked["departures"] == 0, f"it never left its step: {marked}")
    unmarked = run(directory, "--unmarked")
    check(unmarked["marks"] == 0 and unmarked["steps"] == 0, f"nobody said that a step begins: {unmarked}")


def test_plain(_):
    import terrace
    terrace.mark()
    terrace.mark("forward")
    terrace.mark("n" * 63)
    for name, kind in (("n" * 64, ValueError), ("ä" * 32, ValueError), ("a\0b", ValueError), (b"bytes", TypeError), (7, TypeError)):
        try:
            terrace.mark(name)
        except kind as error:
            check(str(error).startswith("mark: "), f"{error} does not say what is wrong")
        else:
            check(False, f"{name!r} was taken")


def main():
    if sys.argv[1] in ("--marked", "--unmarked"):
        return job(sys.argv[1] == "--marked")
    with tempfile.TemporaryDirectory(prefix="terrace-marks-", dir="/var/tmp") as directory:
        {"steps": test_steps, "plain": test_plain}[sys.argv[1]](directory)
    print("ok")
    return None


if __name__ == "__main__":
    sys.exit(main())
