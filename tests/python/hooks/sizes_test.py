#!/usr/bin/python3
"""Sizes are read as everywhere in Terrace; importing the package needs no PyTorch."""
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # support.py
from support import SOURCE, main

from terrace import sizes


class Sizes(unittest.TestCase):
    def test_WhatPeopleWriteIsRead(self):
        for text, size in (("0", 0), ("17", 17), ("5B", 5), ("1K", 2**10), ("2KiB", 2**11), ("3M", 3 * 2**20),
                           ("8GiB", 2**33), ("8GB", 2**33), ("1T", 2**40), (4096, 4096),
                           ("1.5G", 3 * 2**29), (".5k", 512), ("1.", 1), ("8gib", 2**33), ("0.1K", 102)):
            self.assertEqual(sizes.parse(text, "a"), size)

    def test_WhatIsNoSizeIsRefusedByName(self):
        for text in ("", "G", ".", ".G", "1..5G", "1.5GG", "8 GiB", "-1", "1e9", "0x10", "\u0661", "9" * 19 + "T", -1, True, None, 1.0, b"1"):
            with self.assertRaisesRegex(ValueError, "budget: "):
                sizes.parse(text, "budget")

    def test_AShareIsOfTheWhole(self):
        for text, size in (("1%", 163), ("50%", 8192), ("100%", 16384), ("12.5%", 2048), (".1%", 16), ("4K", 4096)):
            self.assertEqual(sizes.parse_share(text, 2**14, "a"), size)
        for text in ("0%", "101%", "100.1%", "%", ".%", "-1%", "50 %", "\u0661%", ""):
            with self.assertRaisesRegex(ValueError, "budget: "):
                sizes.parse_share(text, 2**14, "budget")

    def test_SizesAreWrittenForPeople(self):
        self.assertEqual([sizes.text(n) for n in (17, 2048, 3 * 2**29, 2**50)],
                         ["17 bytes", "2.0 KiB", "1.5 GiB", "1024.0 TiB"])


class Package(unittest.TestCase):
    def test_ImportingItImportsNoTorch(self):
        code = "import sys, terrace; from terrace import library; sys.exit('torch' in sys.modules)"
        subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(SOURCE / "liballoc/python")})


if __name__ == "__main__":
    main()
