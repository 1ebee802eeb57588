#!/usr/bin/python3
"""`terrace pause` and `terrace resume`.

    pausing.py pause     a job stands, its memory is another's meanwhile, and its result is the same
    pausing.py namesake  jobs of two daemons have one name: only the one that is asked for stands
    pausing.py restart   the daemon dies and another one comes while a job stands
    pausing.py refused   who may not, what cannot be paused, and that it runs on
"""
import json
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

from machine import BUDGET, MIB, Machine, check, pause, run, wait_for


def test_pause(directory):
    machine = Machine(directory)
    try:
        machine.start("job", options=("--summary",))
        machine.look_below("job")
        machine.goes_on("job")
        check("cannot be met" in refused_start(machine), "both fit at once")
        pause(machine, "job")
        rounds = machine.rounds("job")
        check(machine.row("job")["paused"] is True, machine.row("job"))
        machine.start("other", "hold", 900 * MIB)
        check("does not fit" in machine.refusal(2, "resume", "job"), "resumed without room")
        check((machine.state("job"), machine.rounds("job")) == ("T", rounds), "it did not stand")
        machine.end("other")
        answer = machine.answer("resume", "job")
        check((answer["processes"], answer["budget_bytes"]) == (1, BUDGET), answer)
        machine.goes_on("job")
        pause(machine, "job")  # once more: what was read in again leaves again
        machine.answer("resume", "job")
        machine.check_result("job")
    finally:
        machine.close()


def test_namesake(directory):
    """Jobs of two daemons have one name: only that of the daemon that was asked is stopped, and only it is let go on."""
    second = Path(directory) / "second"
    second.mkdir()
    machine, neighbour = Machine(directory), Machine(second)
    try:
        for each in (machine, neighbour):
            each.start("job")
            each.goes_on("job")
        pause(machine, "job")
        neighbour.goes_on("job")
        pause(neighbour, "job")
        check(machine.answer("resume", "job")["processes"] == 1, "not one was let go on")
        machine.goes_on("job")
        check(neighbour.state("job") == "T", "the neighbour was let go on, too")
    finally:
        machine.close()
        neighbour.close()


def refused_start(machine):
    words = ["run", "--dram", "900M", "--name", "other"]
    done = subprocess.run([os.environ["TERRACE_BIN"], *words, "--socket", str(machine.socket), "--", "true"],
                          stderr=subprocess.PIPE, text=True, check=False)
    check(done.returncode == 2, f"{done.returncode}: {done.stderr}")
    return done.stderr


def test_restart(directory):
    machine = Machine(directory)
    try:
        machine.start("job")
        machine.goes_on("job")
        pause(machine, "job")
        machine.kill_daemon()
        machine.start_daemon()
        check(machine.row("job") is None, "the new daemon knows a job that stands")
        check(machine.state("job") == "T", "the daemon's death let it go on")
        answer = machine.answer("resume", "job")
        check(answer["processes"] == 1, answer)
        machine.goes_on("job")
        wait_for(lambda: (machine.row("job") or {}).get("budget_bytes") == BUDGET, "its budget from the new daemon")
        machine.refusal(5, "resume", "nobody")
        pause(machine, "job")
        machine.kill_daemon()
        done = machine.terrace("resume", "job")
        check(done.returncode == 0 and "no daemon answers" in done.stdout, done.stdout + done.stderr)
        check(machine.state("job") != "T", "it stands without a daemon")
        machine.start_daemon()
        machine.goes_on("job")
        machine.check_result("job")
    finally:
        machine.close()


def ask_and_leave(path, request):
    """As a `terrace pause` that is killed right after its first request."""
    text = json.dumps(request).encode()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as end:
        end.connect(str(path))
        end.send(struct.pack("<IHHII", 0x43525254, 1, 32, len(text), 0) + text)
        end.recv(2**16)


def test_refused(directory):
    machine = Machine(directory, pool_bytes=64 * MIB, group="nogroup")
    try:
        machine.start("job")
        machine.goes_on("job")
        line = machine.refusal(1, "pause", "job")
        check("its pool is full" in line and "runs on with its budget as before" in line, line)
        check(machine.state("job") != "T" and machine.row("job")["budget_bytes"] == BUDGET, machine.row("job"))
        machine.goes_on("job")
        ask_and_leave(machine.socket, {"verb": "pause", "job": "job"})
        check(machine.row("job")["budget_bytes"] < BUDGET, "the request did nothing")
        wait_for(lambda: machine.row("job")["budget_bytes"] == BUDGET, "the budget of a job whose pauser died", 10)
        check("did you mean 'job'?" in machine.refusal(5, "pause", "jo"), "the nearest name")
        if os.getuid() == 0:
            os.chmod(directory, 0o755)
            stranger = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")
            for words in (("pause", "job"), ("resume", "job"), ("trim", "job"), ("set", "job", "--dram", "64M"),
                          ("set", "job", "--dram-limit", "64M")):
                check("belongs to user 0" in machine.refusal(4, *words, launcher=stranger), words)
        if Path(os.environ["TERRACE_PRELOAD"]).with_name("libterrace_gpu_preload.so").exists():
            machine.start("gpu", "hold", 128 * MIB, ("--gpu", "emulated:64M"))
            check("it uses a GPU" in machine.refusal(2, "pause", "gpu"), "a GPU's job")
            check(machine.state("gpu") != "T", "it was stopped")
        machine.check_result("job")
    finally:
        machine.close()


if __name__ == "__main__":
    sys.exit(run({"pause": test_pause, "namesake": test_namesake, "restart": test_restart, "refused": test_refused}))
