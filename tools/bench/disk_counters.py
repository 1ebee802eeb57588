"""What a disk was given to write and to read, by its own counters: the whole machine's, whoever caused it.

The one account that is the same for everybody. A cgroup's is not: version 1 counts no page that is swapped out for
the group it belongs to. Other programs' writes are in it, so the machine should be quiet.
"""
import os
from pathlib import Path

from cgroup import CgroupUnavailable
from disk_rate import whole_disk

SECTOR = 512  # of these counters, whatever the disk's is


def moved_bytes(directory):
    """(written, read) since boot by the disk that holds `directory`; None where no disk does (tmpfs, overlay)."""
    try:
        disk = Path("/sys/dev/block", whole_disk(os.stat(directory).st_dev))
        counters = (disk / "stat").read_text(encoding="ascii").split()
    except (CgroupUnavailable, OSError):
        return None
    return int(counters[6]) * SECTOR, int(counters[2]) * SECTOR


def difference(before, after):
    if before is None or after is None:
        return {}
    return {"disk_written_bytes": after[0] - before[0], "disk_read_bytes": after[1] - before[1]}
