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


def taking(competitor, seconds):
    steps = [step | {"seconds": seconds} for step in RESULT["steps"]]
    return finished(competitor, RESULT | {"steps": steps})


def late(competitor, *seconds):
    return Outcome(competitor, 61.0, limit_bytes=1 << 29, failure=f"did not finish in 60 s, but {len(seconds)} steps",
                   timed_out=True, given_seconds=60.0, finished_steps=list(seconds))


def killed(competitor):
    outcome = Outcome(competitor, 2.0, peak_bytes=1 << 30, failure="ended by signal 9")
    outcome.kill_for_memory()
    return outcome


def document_of(*outcomes, model="net", fraction=60):
    runs = [(None, finished("stock")), *((fraction, outcome) for outcome in outcomes)]
    comparison = SimpleNamespace(
        model=model, workload=["--model", model], runs=runs, arguments=SimpleNamespace(fractions=[fraction]),
        outcomes=lambda name, fraction=None: [outcome for at, outcome in runs
                                              if outcome.competitor == name and (fraction is None or at == fraction)])
    return report.document([comparison], "limit")


def verdict_of(document, competitor):
    return next(entry.get("bit_identical") for entry in document["models"][0]["entries"] if entry["competitor"] == competitor)


def targets_of(*outcomes, model="unet", fraction=25):
    document = document_of(*outcomes, model=model, fraction=fraction)
    return {target["name"]: target for target in document["models"][0].get("targets", [])}


TO_STOCK, FASTER_THAN_SWAP = "unet at 25%: step, to stock", "unet at 25%: kernel swap's step, to ours"


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
        document = document_of(taking("compress auto", 1.0), taking("compress off", 2.0),
                               taking("compress auto", 3.0), taking("compress off", 4.0),
                               taking("compress auto", 5.0), taking("compress off", 5.0))
        off = next(entry for entry in document["models"][0]["entries"] if entry["competitor"] == "compress off")
        self.assertEqual(off["chosen_by_this_rounds"], [0.5, 0.75, 1.0])
        self.assertIn("compress auto takes 0.750 of off's step at 60% (0.500 to 1.000 in 3 rounds)", report.table(document))

    def test_KernelSwapOverItsTimeTakesMoreThanThatTimeSpreadOverTheSteps(self):
        for steps in ((), (20.0,)):
            document = document_of(taking("terrace", 3.0), late("swap", *steps))
            self.assertTrue(document["all_bit_identical"])
            terrace, swap = document["models"][0]["entries"][1:]
            self.assertEqual((swap["step_seconds_more_than"], swap["ratio_to_stock_more_than"]), (30.0, 30.0))
            self.assertEqual(terrace["ratio_to_swap_less_than"], 0.1)
            table = report.table(document)
            for text in (">30.000", ">30.00", "<0.10", f"swap 60%: did not finish in 60 s, but {len(steps)} steps"):
                self.assertIn(text, table)

    def test_ARoundOfKernelSwapThatFinishedSaysWhatAStepTakes(self):
        document = document_of(taking("terrace", 3.0), late("swap"), taking("swap", 6.0))
        terrace, swap = document["models"][0]["entries"][1:]
        self.assertEqual((swap["step_seconds_median"], terrace["ratio_to_swap"]), (6.0, 0.5))
        self.assertNotIn("step_seconds_more_than", swap)

    def test_TerraceOverItsTimeFails(self):
        document = document_of(late("terrace", 1.0, 1.0), finished("swap"))
        self.assertFalse(document["all_bit_identical"])


class OfTheTargets(unittest.TestCase):
    def test_TheUNetIsComparedWithStockAndWithKernelSwap(self):
        for seconds, slower_swap, met in ((1.25, 6.25, True), (1.26, 6.25, False)):
            wanted = targets_of(taking("terrace", seconds), taking("swap", slower_swap))
            self.assertEqual((wanted[TO_STOCK]["met"], wanted[FASTER_THAN_SWAP]["met"]), (met, met))
        self.assertIn("MISSED", report.table(document_of(taking("terrace", 2.0), model="unet", fraction=25)))

    def test_OtherNetworksAreComparedWithKernelSwapOnly(self):
        wanted = targets_of(taking("terrace", 1.0), taking("swap", 4.0), model="transformer")
        self.assertEqual([(target["value"], target["met"]) for target in wanted.values()], [(4.0, False)])

    def test_KernelSwapThatDidNotFinishLeavesNoTarget(self):
        for swap in (killed("swap"), late("swap", 30.0)):
            self.assertEqual(list(targets_of(taking("terrace", 1.0), swap)), [TO_STOCK])

    def test_TerraceThatFailsMissesThem(self):
        for terrace in (killed("terrace"), finished("terrace", OTHER_BITS), late("terrace", 0.1, 0.1)):
            wanted = targets_of(terrace, taking("swap", 100.0))
            self.assertEqual([(target.get("value"), target["met"]) for target in wanted.values()], [(None, False)] * 2)

    def test_NothingIsWantedOfOtherFractions(self):
        self.assertEqual(targets_of(taking("terrace", 1.0), taking("swap", 4.0), fraction=40), {})


if __name__ == "__main__":
    unittest.main()
