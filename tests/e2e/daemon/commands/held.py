#!/usr/bin/python3
"""What systemd holds for the next daemon.

    held.py held      what systemd holds of a daemon's files counts for the next one when their names are gone
"""
import fcntl
import os
import socket
import sys
import time

from machine import MIB, Machine, check, run, wait_for


class Manager:
    """systemd's end of what a service tells it: the descriptors that it is to hold, by name."""

    def __init__(self, path):
        self.path, self.held = path, {}
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.setblocking(False)

    def take(self):
        while True:
            try:
                told, fds, _, _ = socket.recv_fds(self.socket, 4096, 4)
            except BlockingIOError:
                return self.held
            words = dict(line.split("=", 1) for line in told.decode().splitlines())
            if "FDSTOREREMOVE" in words and words["FDNAME"] in self.held:
                os.close(self.held.pop(words["FDNAME"]))
            if "FDSTORE" in words:
                self.held[words["FDNAME"]] = fcntl.fcntl(fds[0], fcntl.F_DUPFD_CLOEXEC, 10)  # beyond those that a daemon is handed
                os.close(fds[0])


def test_held(directory):
    """What systemd holds for the next daemon counts when somebody has removed the files; else they are gone."""
    machine = Machine(directory)
    manager = Manager(machine.directory / "notify")

    def restart(held=None):
        machine.kill_daemon()
        for name in ("promises", "events"):
            os.unlink(f"{machine.socket}.{name}")
        machine.start_daemon(held, manager.path)
        wait_for(lambda: machine.row("job"), "the job to come back")

    try:
        machine.start("job")
        machine.goes_on("job")
        restart()
        check(machine.terrace("set", "job", "--pool-limit", "512M").returncode == 0, "a limit")
        time.sleep(0.5)  # until it is on record
        for _ in range(2):
            last_before = machine.answer("events", "-n", "1")["events"][-1]["number"]
            check(sorted(manager.take()) == ["events", "promises"], manager.held)
            restart(dict(manager.held))
            check(machine.row("job").get("pool_limit_bytes") == 512 * MIB, machine.row("job"))
            numbers = [event["number"] for event in machine.answer("events", "-n", "4096")["events"]]
            check(numbers[0] <= last_before < numbers[-1], f"events {numbers[0]} to {numbers[-1]}, before to {last_before}")
            time.sleep(0.5)
        restart()
        check("pool_limit_bytes" not in machine.row("job"), f"of files that are gone: {machine.row('job')}")
        machine.check_result("job")
    finally:
        machine.close()


if __name__ == "__main__":
    sys.exit(run({"held": test_held}))
