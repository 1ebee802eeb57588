#!/usr/bin/python3
"""What `terrace bench plan` concludes of its rounds: each ratio is to its own plan's plain step, medians count, and only what
fits a budget stands beside a plan for it."""
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools/bench"))

import segment_plans


def taken(seconds, peak, plain=1.0, predicted=None, predicted_peak=None):
    return {"plain": {"peak_bytes": 1000, "seconds": plain}, "measured": {"peak_bytes": peak, "seconds": seconds},
            "predicted": {"peak_bytes": predicted_peak or peak, "seconds": predicted or seconds}, "budget_bytes": 1000, "segments": {"keep": 1}}


class Judged(unittest.TestCase):
    def row(self, policy, percent, *rounds):
        return segment_plans.summary("network", policy, percent, list(rounds))

    def test_ARoundIsJudgedByItsOwnPlainStep(self):
        row = self.row("best", 50, taken(2.0, 500, plain=1.0), taken(6.0, 500, plain=4.0), taken(1.2, 500, plain=1.0))
        self.assertAlmostEqual(row["step_ratio"], 1.5)
        self.assertAlmostEqual(row["peak_share"], .5)

    def test_ErrorsHaveNoSign(self):
        row = self.row("best", 50, taken(0.8, 450, predicted=1.0, predicted_peak=500))
        self.assertAlmostEqual(row["step_error"], .2)
        self.assertAlmostEqual(row["peak_error"], .1)

    def wanted(self, *rows):
        return {target["name"]: target["met"] for target in segment_plans.wanted(list(rows))}

    def test_WhatFitsTheBudgetStandsBesideIt(self):
        best, fits, other = self.row("best", 50, taken(1.5, 450)), self.row("checkpoint", 100, taken(1.4, 500)), self.row(
            "offload", 100, taken(1.1, 501))
        self.assertEqual(self.wanted(best, fits, other), {
            "network best 50%: error of the peak": True, "network best 50%: error of the step": True,
            "network best 50%: step by checkpoint's": False})

    def test_ARefusedBudgetMisses(self):
        refused = segment_plans.summary("network", "best", 35, [{"refused": "budget: too small"}])
        self.assertEqual(set(self.wanted(refused).values()), {False})
        self.assertIn("budget: too small", segment_plans.table({
            "torch": "", "torchvision": "", "link": "1G", "networks": ["network"], "rows": [refused],
            "targets": segment_plans.wanted([refused])}))


if __name__ == "__main__":
    unittest.main()
