#!/usr/bin/python3
"""A job that keeps compressed data in DRAM: its data is right, and what it keeps is told.

    kept.py move|mremap    terrace run --tiers compressed=40%, with each way of taking pages out
    kept.py falling        the budget falls while the job runs: what is kept moves on to the drive

The job holds three times its budget, of which two thirds are mostly zeros, as activations behind ReLU are. It reads
all of it again and again in two orders, changes some, and reads it in a forked child.
"""
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy

MIB = 2**20
BLOCKS, BLOCK_BYTES, BUDGET = 24, 16 * MIB, 128 * MIB


# ---- the job ------------------------------------------------------------------------------------------------

def make(number):
    random = numpy.random.default_rng(number)
    values = random.standard_normal(BLOCK_BYTES // 4, dtype=numpy.float32)
    if number % 3 != 0:  # as behind ReLU
        values[random.random(values.size, dtype=numpy.float32) < 0.7] = 0
    return values


def digest(block):
    return hashlib.sha256(block).digest()


def wrong(blocks, digests, order):
    return sum(digest(blocks[i]) != digests[i] for i in order)


def wrong_in_a_child(blocks, digests):
    child = os.fork()
    if child == 0:
        os._exit(wrong(blocks, digests, range(len(blocks))))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def lower_budget(terrace):
    """Of this job, by the control socket of the private daemon, as a user would."""
    job = json.loads(subprocess.run([terrace, "jobs", "--json"], check=True, capture_output=True).stdout)["jobs"][0]
    subprocess.run([terrace, "set", job["job"], "--dram", "40M"], check=True, stdout=subprocess.DEVNULL)


def use(between):
    """Uses all blocks in four steps; between(step) is called after each. What was wrong, and the blocks."""
    blocks = [make(i) for i in range(BLOCKS)]
    digests = [digest(block) for block in blocks]
    result = {"wrong": 0, "wrong_in_a_child": 0}
    for step in range(4):
        result["wrong"] += wrong(blocks, digests, range(BLOCKS))
        result["wrong"] += wrong(blocks, digests, reversed(range(BLOCKS)))
        blocks[step] *= numpy.float32(2)
        digests[step] = digest(blocks[step])
        if step == 1:
            result["wrong_in_a_child"] = wrong_in_a_child(blocks, digests)
        between(step)
    return result, blocks


def job(terrace, falls):
    result, _ = use(lambda step: lower_budget(terrace) if step == 1 and falls else None)
    print(json.dumps(result))


# ---- the test -----------------------------------------------------------------------------------------------

def run(terrace, how, directory):
    summary = Path(directory) / "summary.json"
    environment = dict(os.environ, XDG_RUNTIME_DIR=directory)
    if how in ("move", "mremap"):
        environment["TERRACE_MOVER"] = how
    if how == "falling":  # whether compressing pays on this drive is not what is asked: something has to be kept
        environment["TERRACE_COMPRESS"] = "zvc_exp"
    command = [terrace, "run", "--private", "--dram", str(BUDGET), "--pool", directory, "--json-summary", summary]
    command += ["--tiers", "compressed=40%", "--", sys.executable, __file__, "--job", terrace, how]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nexit code {done.returncode}\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1]), json.loads(summary.read_text())["counters"], done.stderr


def check(condition, text):
    if not condition:
        sys.exit(text)


def test(terrace, how):
    """0, or 77 where this machine cannot do it."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as directory:
        result, kept, said = run(terrace, how, directory)
    if kept.get("pager") != "active":
        print(f"SKIP: no pager here: {said}")
        return 77
    check(result == {"wrong": 0, "wrong_in_a_child": 0}, f"wrong data: {result}")
    check(kept["kept_bytes"] > 0, f"nothing was kept: {kept}")
    check(kept["fetched_bytes"] > 0, f"nothing of it came back: {kept}")
    check(kept["resident_peak_bytes"] <= BUDGET + 8 * MIB, f"over the budget: {kept}")
    if how == "falling":
        check(kept["demoted_bytes"] > 0, f"nothing moved on to the drive: {kept}")
        return 0
    print(f"kept {kept['kept_bytes']}, of which {kept['fetched_bytes']} came back")
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "--job":
        job(sys.argv[2], sys.argv[3] == "falling")
    else:
        sys.exit(test(os.environ["TERRACE_BIN"], sys.argv[1]))
