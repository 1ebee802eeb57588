#!/usr/bin/python3
"""`terrace bench training`: which outcomes make a comparison fail, and what the table says of each."""
import sys
import unittest
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools/bench"))

import report
from competitors import Outcome

RESULT = {"steps": [{"loss": "0x1.8p+0", "seconds": 1.0}, {"loss": "0x1.4p+0", "seconds": 1.0}], "state_sha256": "ab"}
OTHER_BITS = RESULT | {"state_sha256": "cd"}


def finished(competitor, result=None):
    return Outcome(competitor, 2.0, peak_bytes=1 << 30, result=result or RESULT)


def killed(competitor):
    outcome = Outcome(competitor, 2.0, peak_bytes=1 << 30, failure="ended by signal 9")
    outcome.kill_for_memory()
    return outcome


def document_of(*outcomes):
    runs = [(None, finished("stock")), *((60, outcome) for outcome in outcomes)]
    comparison = SimpleNamespace(
        model="net", workload=["--model", "net"], runs=runs, arguments=SimpleNamespace(fractions=[60]),
        outcomes=lambda name, fraction=None: [outcome for at, outcome in runs
                                              if outcome.competitor == name and (fraction is None or at == fraction)])
    return report.document([comparison], "limit")


def verdict_of(document, competitor):
    return next(entry.get("bit_identical") for entry in document["models"][0]["entries"] if entry["competitor"] == competitor)


class OfTheReport(unittest.TestCase):
    def test_KernelSwapKilledForMemoryIsItsResult(self):
        document = document_of(finished("terrace"), killed("swap"))
        self.assertTrue(document["all_bit_identical"])
        self.assertIsNone(verdict_of(document, "swap"))
        self.assertIn("swap: killed for memory: ended by signal 9", report.table(document))

    def test_TerraceKilledForMemoryFails(self):
        document = document_of(killed("terrace"), finished("swap"))
        self.assertFalse(document["all_bit_identical"])
        self.assertFalse(verdict_of(document, "terrace"))

    def test_OtherBitsFailWhoeverGivesThem(self):
        for competitor in ("terrace", "swap", "compress auto"):
            document = document_of(finished(competitor, OTHER_BITS))
            self.assertFalse(document["all_bit_identical"], competitor)
            self.assertIn("NO", report.table(document), competitor)

    def test_KernelSwapThatFailsOtherwiseFails(self):
        crashed = Outcome("swap", 2.0, failure="exit code 1")
        self.assertFalse(document_of(finished("terrace"), crashed)["all_bit_identical"])

    def test_OneRoundOfSwapKilledLeavesTheOthersJudged(self):
        self.assertIs(verdict_of(document_of(killed("swap"), finished("swap")), "swap"), True)
        self.assertIs(verdict_of(document_of(killed("swap"), finished("swap", OTHER_BITS)), "swap"), False)

    def test_WhatWasChosenIsComparedRoundByRound(self):
        def taking(competitor, seconds):
            steps = [step | {"seconds": seconds} for step in RESULT["steps"]]
            return finished(competitor, RESULT | {"steps": steps})

        document = document_of(taking("compress auto", 1.0), taking("compress off", 2.0),
                               taking("compress auto", 3.0), taking("compress off", 4.0),
                               taking("compress auto", 5.0), taking("compress off", 5.0))
        off = next(entry for entry in document["models"][0]["entries"] if entry["competitor"] == "compress off")
        self.assertEqual(off["chosen_by_this_rounds"], [0.5, 0.75, 1.0])
        self.assertIn("compress auto takes 0.750 of off's step at 60% (0.500 to 1.000 in 3 rounds)", report.table(document))


if __name__ == "__main__":
    unittest.main()
