"""A slower disk than the machine has: the kernel's block I/O throttle on the device that holds a directory.

What a tier costs depends on its disk, and machines differ by ten times. Under `with DiskRate(directory, rate):` this process
and what it starts read and write that device with at most `rate` bytes a second each way, past the page cache.
"""
import errno
import os
import time
from pathlib import Path

from cgroup import CgroupUnavailable, own_path

MOUNTS = Path("/proc/self/mountinfo")
LIMITS = ("blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device")


class DiskRate:
    """Takes the process into a cgroup of its own and back. With version 2 the group would have to be the one
    that holds the jobs' memory cgroups, where no process may live: systemd has to make it."""

    def __init__(self, directory, bytes_per_second):
        self.device, self.rate = whole_disk(os.stat(directory).st_dev), bytes_per_second

    def __enter__(self):
        self.home = throttle_hierarchy()
        self.group = self.home / f"terrace-bench-disk-{os.getpid()}"
        try:
            self.group.mkdir()
            for limit in LIMITS:
                (self.group / limit).write_text(f"{self.device} {self.rate}", encoding="ascii")
            enter(self.group)
        except OSError as error:
            self.__exit__()
            raise CgroupUnavailable(f"{error.filename or self.group}: {error.strerror}; --disk-rate needs root") from error
        return self

    def __exit__(self, *_):
        enter(self.home)
        if self.group.is_dir():
            remove(self.group, self.home)


def remove(group, home, seconds=5):
    """What was started in the group and still runs goes on without the throttle; what ends meanwhile is waited for."""
    for pid in (group / "cgroup.procs").read_text(encoding="ascii").split():
        try:
            (home / "cgroup.procs").write_text(pid, encoding="ascii")
        except ProcessLookupError:
            pass
    end = time.monotonic() + seconds
    while True:
        try:
            return group.rmdir()
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > end:
                raise
        time.sleep(0.01)


def enter(group):
    (group / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")


def whole_disk(device):
    """The kernel throttles disks, not partitions."""
    node = Path("/sys/dev/block", f"{os.major(device)}:{os.minor(device)}")
    if not node.exists():
        raise CgroupUnavailable(f"device {node.name} is no disk (tmpfs, overlay): --disk-rate needs a --pool on one")
    disk = node.resolve()
    return ((disk.parent if (disk / "partition").exists() else disk) / "dev").read_text(encoding="ascii").strip()


def throttle_hierarchy():
    """This process's own directory in the hierarchy of version 1 that throttles."""
    for line in MOUNTS.read_text(encoding="utf-8").splitlines():
        left, right = line.split(" - ", 1)
        if right.startswith("cgroup ") and "blkio" in right.split(" ", 2)[2].split(","):
            fields = left.split()
            return Path(fields[4], own_path(1, fields[3], controller="blkio"))
    raise CgroupUnavailable("no blkio hierarchy of cgroup version 1 is mounted; with version 2 leave out --disk-rate and run the "
                            "benchmark under: systemd-run --scope -p 'IOReadBandwidthMax=DISK RATE' -p 'IOWriteBandwidthMax=DISK RATE'")
