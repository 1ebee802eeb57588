#!/usr/bin/python3
"""`terrace bench training --disk-rate`: the process is in a throttled group while it lasts, and back where it was after."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools/bench"))

from cgroup import CgroupUnavailable
from disk_rate import LIMITS, DiskRate, throttle_hierarchy

RATE = 300 << 20


def own_group():
    lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    return next(line.split(":", 2)[2] for line in lines if "blkio" in line.split(":", 2)[1].split(","))


class OfDiskRate(unittest.TestCase):
    def setUp(self):
        try:
            throttle_hierarchy()
            with DiskRate("/var/tmp", RATE):
                pass
        except CgroupUnavailable as reason:
            print(f"SKIP: {reason}")
            self.skipTest(str(reason))
        self.home = own_group()

    def test_both_directions_are_limited_while_it_lasts(self):
        with DiskRate("/var/tmp", RATE) as disk:
            self.assertTrue(own_group().endswith(disk.group.name))
            for limit in LIMITS:
                self.assertEqual((disk.group / limit).read_text(encoding="ascii").split()[-2:], [disk.device, str(RATE)])

    def test_the_process_returns_and_nothing_is_left(self):
        with self.assertRaises(ZeroDivisionError), DiskRate("/var/tmp", RATE) as disk:
            1 / 0
        self.assertEqual(own_group(), self.home)
        self.assertFalse(disk.group.exists())


    def test_what_it_started_and_left_running_goes_on_without_the_throttle(self):
        with DiskRate("/var/tmp", RATE) as disk:
            child = subprocess.Popen(["sleep", "60"])
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        self.assertIsNone(child.poll())
        self.assertFalse(disk.group.exists())


class OfWhatIsNoDisk(unittest.TestCase):
    def test_memory_is_refused_by_name(self):
        with tempfile.TemporaryDirectory(dir="/dev/shm") as directory, self.assertRaisesRegex(CgroupUnavailable, "no disk"):
            DiskRate(directory, RATE)


if __name__ == "__main__":
    unittest.main(verbosity=2)
