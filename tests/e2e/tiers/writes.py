#!/usr/bin/python3
"""A job that may write so much to the drive in a day stops there, runs on, and its data is right.

    writes.py private      terrace run --writes-per-day: the pager stops at it, the next run knows what is left
    writes.py service      a terraced with writes_per_day, killed while the job runs: the next one goes on counting
    writes.py limit        under --limit the job writes on, and is told so, as it would be ended otherwise
    writes.py refused      what cannot be obeyed is refused and not ignored

The job holds three times its budget in random blocks, reads all of them again and again and changes a part.
"""
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # waiting.py
from waiting import check, wait_for

MIB = 2**20
BLOCKS, BLOCK_BYTES, BUDGET = 24, 16 * MIB, 128 * MIB
A_DAY = 96 * MIB


# ---- the job ------------------------------------------------------------------------------------------------

def job(rounds):
    blocks = [bytearray(random.Random(i).randbytes(BLOCK_BYTES)) for i in range(BLOCKS)]
    digests = [hashlib.sha256(block).digest() for block in blocks]
    wrong = 0
    for number in range(rounds):
        for i, block in enumerate(blocks):
            wrong += hashlib.sha256(block).digest() != digests[i]
            block[number * 4096] ^= 255
            digests[i] = hashlib.sha256(block).digest()
    print(f"wrong: {wrong}")


# ---- the test -----------------------------------------------------------------------------------------------

class Skipped(Exception):
    pass


def run(directory, *options, rounds=3):
    """What the job did and said."""
    summary = Path(directory) / "summary.json"
    command = [os.environ["TERRACE_BIN"], "run", "--pool", directory, "--json-summary", summary, *options]
    done = subprocess.run([*command, "--", sys.executable, __file__, "--job", str(rounds)], capture_output=True, text=True,
                          check=False)
    check(done.returncode == 0, f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    check(done.stdout.splitlines()[-1] == "wrong: 0", f"wrong data: {done.stdout}{done.stderr}")
    counters = json.loads(summary.read_text())["counters"]
    if counters.get("pager") != "active":
        raise Skipped(f"no pager here: {done.stderr}")
    return counters, done.stderr


def test_private(directory):
    limited = ("--private", "--dram", str(BUDGET), "--writes-per-day", str(A_DAY))
    first, said = run(directory, *limited)
    check(0.8 * A_DAY <= first["written_bytes"] <= A_DAY, f"not up to what it may write: {first}")
    check("may write to the drive today is spent" in said, f"it was not told: {said}")
    check(first["resident_peak_bytes"] > BUDGET and first["io_errors"] == 0, f"what stays is no error: {first}")
    second, _ = run(directory, *limited)
    check(first["written_bytes"] + second["written_bytes"] <= A_DAY, f"a day's bytes twice: {first}, {second}")
    more, _ = run(directory, *limited[:-1], str(2 * A_DAY), rounds=1)
    check(more["written_bytes"] > 0, "a larger limit lets it write again")
    record = Path(os.environ["XDG_STATE_HOME"], "terrace")
    check([file.stat().st_mode & 0o777 for file in record.iterdir()] == [0o600], f"one private record: {list(record.iterdir())}")


def start_daemon(directory):
    socket = Path(directory, "d.sock")
    log = open(Path(directory, "daemon.log"), "a", encoding="utf-8")
    daemon = subprocess.Popen(
        [os.environ["TERRACE_BIN"] + "d", "--socket", socket, "--dram", "512M", "--pool", directory, "--pool-size", "1G",
         "--writes-per-day", str(A_DAY), "--writes-per-user", "100%"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    wait_for(lambda: ask(socket, "status") is not None, "the daemon")
    return socket, daemon


def ask(socket, verb):
    done = subprocess.run([os.environ["TERRACE_BIN"], verb, "--json", "--socket", socket], capture_output=True, text=True,
                          check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None


def pool(socket):
    return next(tier for tier in ask(socket, "tiers")["tiers"] if tier["tier"] == "nvme")


def test_service(directory):
    socket, daemon = start_daemon(directory)
    command = [os.environ["TERRACE_BIN"], "run", "--socket", socket, "--dram", str(BUDGET), "--name", "job", "--",
               sys.executable, __file__, "--job", "12"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            wait_for(lambda: pool(socket)["written_today_bytes"] > A_DAY / 4, "the job to write")
            os.kill(daemon.pid, signal.SIGKILL)
            daemon.wait()
            socket, daemon = start_daemon(directory)
            said, errors = running.communicate(timeout=120)
            check(running.returncode == 0 and said == "wrong: 0\n", f"{running.returncode}: {said}{errors}")
            tier = pool(socket)
            check(tier["written_today_bytes"] <= A_DAY and tier["writes_per_day_bytes"] == A_DAY, f"{tier}")
            check(tier["written_today_bytes"] + tier["writes_left_bytes"] <= A_DAY, f"more is left than there was: {tier}")
            check(tier["written_today_bytes"] > A_DAY / 4, f"it begins anew: {tier}")
            status = subprocess.run([os.environ["TERRACE_BIN"], "status", "--socket", socket], capture_output=True, text=True,
                                    check=True).stdout
            check("written today" in status and "96.0 MiB" in status, status)
        finally:
            running.kill()
            daemon.kill()
            daemon.wait()


def test_limit(directory):
    try:
        counters, said = run(directory, "--private", "--limit", "256M", "--writes-per-day", str(A_DAY))
    except SystemExit as problem:
        if "cgroup" in str(problem):
            raise Skipped(problem) from problem
        raise
    check(counters["written_bytes"] > A_DAY, f"it should have written on: {counters}")
    check("under --limit the job writes on" in said, f"it was not told: {said}")


def test_refused(directory):
    def refusal(*options):
        done = subprocess.run([os.environ["TERRACE_BIN"], "run", *options, "--", "true"], capture_output=True, text=True,
                              check=False)
        check(done.returncode == 2 and done.stderr.startswith("terrace: "), f"{options}: {done.returncode} {done.stderr}")
        return done.stderr
    check("smallest possible" in refusal("--private", "--writes-per-day", "1M"), "the least")
    check("one drive" in refusal("--private", "--writes-per-day", "1G", "--pool", f"{directory},/tmp"), "several drives")
    socket, daemon = start_daemon(directory)
    try:
        check("--private" in refusal("--socket", socket, "--writes-per-day", "1G"), "another's daemon")
    finally:
        daemon.kill()
        daemon.wait()


def test(name):
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as directory:
        os.environ.update(XDG_RUNTIME_DIR=directory, XDG_STATE_HOME=f"{directory}/state")
        try:
            globals()[f"test_{name}"](directory)
        except Skipped as why:
            print(f"SKIP: {why}")
            return 77
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "--job":
        job(int(sys.argv[2]))
    else:
        sys.exit(test(sys.argv[1]))
