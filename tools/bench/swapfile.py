"""Kernel swap for the time of one measurement: a swap file on the disk that the competitors also use.

Needs root. The file is removed on every way out, SIGTERM and Ctrl-C included; what a SIGKILL leaves behind is
removed by the next run, which recognises it by the dead process id in its name.
"""
import os
import re
import subprocess
from pathlib import Path

PREFIX = "terrace-bench-swap-"


class SwapUnavailable(Exception):
    """Swap cannot be turned on here; the text says why."""


class SwapFile:
    def __init__(self, directory, size):
        if os.geteuid() != 0:
            raise SwapUnavailable("the kernel-swap baseline needs root")
        remove_stale()
        self.path = Path(directory, f"{PREFIX}{os.getpid()}")
        self.size = size

    def __enter__(self):
        try:
            descriptor = os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_TRUNC, 0o600)
            os.posix_fallocate(descriptor, 0, self.size)
            os.close(descriptor)
            run("mkswap", self.path)
            run("swapon", self.path)
        except (OSError, subprocess.CalledProcessError) as error:
            remove(self.path)
            detail = getattr(error, "stderr", None) or str(error)
            raise SwapUnavailable(f"no swap file of {self.size} bytes on {self.path.parent}: {detail.strip()}") from error
        return self

    def __exit__(self, *_):
        remove(self.path)


def run(tool, path):
    # By full path: a login as root without /usr/sbin in PATH is common.
    subprocess.run([f"/usr/sbin/{tool}", str(path)], check=True, capture_output=True, text=True)


def active():
    """Paths of all swap areas in use."""
    return [line.split()[0] for line in Path("/proc/swaps").read_text(encoding="utf-8").splitlines()[1:]]


def remove(path):
    if str(path) in active():
        run("swapoff", path)
    path.unlink(missing_ok=True)


def remove_stale():
    for path in map(Path, active()):
        match = re.fullmatch(PREFIX + r"(\d+)", path.name)
        if match and not Path("/proc", match[1]).exists():
            remove(path)


def moved_bytes():
    """(swapped out, swapped in) by the whole machine since boot."""
    counters = dict(line.split() for line in Path("/proc/vmstat").read_text(encoding="ascii").splitlines())
    page = os.sysconf("SC_PAGE_SIZE")
    return int(counters["pswpout"]) * page, int(counters["pswpin"]) * page
