#!/usr/bin/python3
"""Runs a command in a memory cgroup of its own, with a limit or only to learn its peak (version 1 or 2).

The kernel's own account is the referee of the benchmarks: it charges every page of every process of a job,
page cache included, and it enforces the limit, so no competitor measures itself. As a program:

    cgroup.py --limit 2G -- python3 train.py        prints the peak on standard error, returns the command's code

Where a cgroup can be made: version 1 anywhere below one's own; version 2 only where the memory controller is
handed on to children, which the kernel refuses while processes live in the parent itself. Then the nearest
ancestor that allows it is used, if no limit lies between.
"""
import argparse
import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

from sizes import format_size, parse_size

V1 = {"limit": "memory.limit_in_bytes", "peak": "memory.max_usage_in_bytes", "current": "memory.usage_in_bytes"}
V2 = {"limit": "memory.max", "peak": "memory.peak", "current": "memory.current"}
serial = itertools.count(1)


class CgroupUnavailable(Exception):
    """No memory cgroup can be made here; the text says why and what would help."""


def hierarchy(root="/"):
    """(version, mount point, own directory) of the hierarchy that accounts memory."""
    found = []
    for line in Path(root, "proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        left, right = line.split(" - ", 1)
        kind, _, options = right.split(" ", 2)
        mount, inner = Path(left.split()[4]), left.split()[3]
        if kind == "cgroup" and "memory" in options.split(","):
            found.insert(0, (1, mount, inner))
        elif kind == "cgroup2" and "memory" in read(mount / "cgroup.controllers", "").split():
            found.append((2, mount, inner))
    if not found:
        raise CgroupUnavailable("no cgroup hierarchy with the memory controller is mounted")
    version, mount, inner = found[0]
    return version, mount, mount / own_path(version, inner, root)


def own_path(version, inner, root="/", controller="memory"):
    for line in Path(root, "proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        number, controllers, path = line.split(":", 2)
        if (version == 2 and number == "0") or (version == 1 and controller in controllers.split(",")):
            return os.path.relpath(path, inner) if path.startswith(inner) else "."
    return "."


def read(path, otherwise=None):
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except OSError:
        if otherwise is None:
            raise
        return otherwise


def parents(version, mount, own):
    """Directories below which a child may be made, nearest first."""
    yield own
    while version == 2 and own != mount and read(own / "memory.max", "max") == "max":
        own = own.parent
        yield own


class MemoryCgroup:
    """A child cgroup for one job; a context manager that kills what is left inside and removes it."""

    def __init__(self, limit_bytes=None, waits=False):
        """`waits`: an allocation beyond the limit waits until pages leave, instead of the kernel killing for it, as
        `terrace run --limit` has it too. Version 1 only: the other has nothing of the kind."""
        self.version, mount, own = hierarchy()
        self.names = V1 if self.version == 1 else V2
        self.directory = self._make(mount, own)
        if limit_bytes is not None:
            self._write("limit", limit_bytes)
        if waits and self.version == 1:
            (self.directory / "memory.oom_control").write_text("1", encoding="ascii")

    def _make(self, mount, own):
        reasons = []
        for parent in parents(self.version, mount, own):
            try:
                if self.version == 2 and "memory" not in read(parent / "cgroup.subtree_control").split():
                    (parent / "cgroup.subtree_control").write_text("+memory", encoding="ascii")
                child = parent / f"terrace-bench-{os.getpid()}-{next(serial)}"
                child.mkdir()
                return child
            except OSError as error:
                reasons.append(f"{parent}: {error.strerror}")
        raise CgroupUnavailable("no memory cgroup can be made (" + "; ".join(reasons) + "); run it as root, or "
                                "under systemd with: systemd-run --scope -p Delegate=memory")

    def _write(self, what, value):
        (self.directory / self.names[what]).write_text(str(value), encoding="ascii")

    def command(self, arguments):
        """The command line that enters the cgroup and becomes `arguments`."""
        enter = 'echo $$ > "$0" && exec "$@"'
        return ["/bin/sh", "-c", enter, str(self.directory / "cgroup.procs"), *map(str, arguments)]

    def peak_bytes(self):
        text = read(self.directory / self.names["peak"], "")  # memory.peak came with Linux 5.19
        return int(text) if text else None

    def oom_kills(self):
        events = "memory.oom_control" if self.version == 1 else "memory.events"
        for line in read(self.directory / events, "").splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
        return None

    def pids(self):
        found = []
        for directory, _, _ in os.walk(self.directory):
            found += [int(pid) for pid in read(Path(directory, "cgroup.procs"), "").split()]
        return found

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for attempt in range(100):
            for pid in self.pids():
                kill(pid)
            if self._remove():
                return
            time.sleep(0.02 * min(attempt, 10))
        print(f"{self.directory} could not be removed: a process in it does not end", file=sys.stderr)

    def _remove(self):
        try:
            for directory, _, _ in os.walk(self.directory, topdown=False):
                os.rmdir(directory)
            return True
        except OSError:
            return False


def kill(pid):
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--limit", type=parse_size, help="limit memory to this size (swap is not limited)")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not command:
        parser.error("no command given")
    try:
        with MemoryCgroup(arguments.limit) as group:
            code = subprocess.call(group.command(command))
            print(f"peak {format_size(group.peak_bytes())}, out-of-memory kills {group.oom_kills()}", file=sys.stderr)
            return code if code >= 0 else 128 - code
    except CgroupUnavailable as error:
        print(f"cgroup.py: {error}", file=sys.stderr)
        return 4


if __name__ == "__main__":
    sys.exit(main())
