#!/usr/bin/python3
"""What a user may set is checked once, and a refusal says what is accepted."""
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # support.py
from support import main, skip

try:
    from terrace.torch import settings
except ImportError as error:
    skip(str(error))


class Settings(unittest.TestCase):
    def refused(self, says, **arguments):
        with self.assertRaises(ValueError) as caught:
            settings.make(**arguments)
        self.assertRegex(str(caught.exception), says)

    def test_ABudgetBeyondTheMachineIsRefusedWithWhatThereIs(self):
        self.refused(r"budget: 9\.8 TiB are more than this machine.*ask for at most \d+M", budget="9999G")
        self.refused("budget: 1.0 MiB are too few", budget="1M")

    def test_TiersComeAsAListOrAsOneText(self):
        both = settings.make(tiers=("dram", "nvme"))
        self.assertGreater(both.nvme_bytes, 0)
        bounded = settings.make(tiers=("dram", "nvme"), nvme_bytes="1G")  # by itself, what is free, which changes
        self.assertEqual(settings.make(tiers="dram,nvme", nvme_bytes="1G"), bounded)
        self.refused("'tape' is not known", tiers="dram,tape")
        self.refused("not a list of tiers", tiers="dram,dram")

    def test_OfSeveralPoolDirectoriesTheFirstIsTheDrives(self):
        self.assertEqual(settings.from_environment({"TERRACE_POOL_DIR": "/var/tmp,/tmp"}).directory, "/var/tmp")
        self.assertEqual(settings.make(directory="/a,b").directory, "/a,b")  # an argument names one

    def test_TheLimitIsASizeOrAutoOrNone(self):
        limits = {text: settings.from_environment({"TERRACE_OFFLOAD_LIMIT": text}).limit
                  for text in ("", "auto", "none", "2G")}
        self.assertEqual(limits, {"": "auto", "auto": "auto", "none": None, "2G": 2**31})
        self.refused("limit: 'lots' is not a size; .*'auto', or None", limit="lots")
        with self.assertRaisesRegex(ValueError, "TERRACE_OFFLOAD_LIMIT: 'lots'"):
            settings.from_environment({"TERRACE_OFFLOAD_LIMIT": "lots"})


if __name__ == "__main__":
    main()
