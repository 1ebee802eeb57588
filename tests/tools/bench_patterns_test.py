#!/usr/bin/python3
"""`terrace bench` of memory patterns: arguments, what makes a comparison fail, targets, and that the workloads compute the
same each time."""
import contextlib
import io
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

BENCH = Path(__file__).resolve().parents[2] / "tools/bench"
sys.path[:0] = [str(BENCH / "patterns"), str(BENCH)]

import comparison
import competitors
import drive_speed
import pattern_probes
import patterns
import patterns_report
from competitors import Outcome

RESULT = {"steps": [{"seconds": 9.0}, {"seconds": 1.0}, {"seconds": 1.0}], "result_sha256": "ab", "data_bytes": 1 << 30}


def finished(competitor, seconds=1.0, digest="ab", written=0):
    result = RESULT | {"result_sha256": digest, "steps": [{"seconds": 9.0}, {"seconds": seconds}]}
    return Outcome(competitor, 2.0, peak_bytes=1 << 30, result=result, moved={"written_bytes": written})


def late(competitor, *seconds):
    return Outcome(competitor, 60.0, failure="did not finish in 60 s", timed_out=True, given_seconds=60.0,
                   finished_steps=list(seconds))


def document_of(name, case, *outcomes, bound=None):
    runs = [(None, finished("stock")), *((50, outcome) for outcome in outcomes)]
    comparison = SimpleNamespace(
        drive_speeds=[{"read_bytes_per_second": 1e9, "write_bytes_per_second": 1e9}],
        bound_seconds=lambda limit_bytes: {"transfer_seconds": bound, "bound_seconds": bound} if bound and limit_bytes else {},
        model=case, workload=[], runs=runs, arguments=SimpleNamespace(fractions=[50]),
        outcomes=lambda name, fraction=None: [outcome for at, outcome in runs
                                              if outcome.competitor == name and (fraction is None or at == fraction)])
    return patterns_report.document(name, [comparison])


def targets_of(document):
    return {target["name"].split(": ")[1]: target for target in document["cases"][0]["targets"]}


class OfTheReport(unittest.TestCase):
    def test_StepsAreComparedWithSwapAndTheFirstIsLeftOut(self):
        document = document_of("gups", "contiguous", finished("terrace", 2.0), finished("swap", 4.0))
        target = targets_of(document)["step, to kernel swap"]
        self.assertEqual((target["value"], target["met"]), (0.5, True))
        self.assertTrue(document["all_equal"])

    def test_SlowerThanSwapIsMissed(self):
        document = document_of("gups", "contiguous", finished("terrace", 4.0), finished("swap", 2.0))
        self.assertFalse(targets_of(document)["step, to kernel swap"]["met"])

    def test_WhatIsOnlyReadIsWrittenOnceAtMost(self):
        for written, met in ((1 << 30, True), ((1 << 30) + 1, False)):
            document = document_of("merge", "merge", finished("terrace", written=written), finished("swap"))
            self.assertIs(targets_of(document)["written, times the data"]["met"], met)
        self.assertNotIn("written, times the data", targets_of(document_of("embedding", "update", finished("terrace"), finished("swap"))))

    def test_SwapOverItsTimeIsItsResultWithTheStepsItMade(self):
        document = document_of("gups", "contiguous", finished("terrace", 2.0), late("swap", 30.0, 20.0))
        self.assertTrue(document["all_equal"])
        self.assertEqual(targets_of(document)["step, to kernel swap"]["value"], 0.1)
        self.assertIn("did not finish in 60 s", patterns_report.table(document))

    def test_SwapWithoutAStepHasLost(self):
        document = document_of("gups", "contiguous", finished("terrace"), late("swap"))
        target = targets_of(document)["step, to kernel swap, which made none"]
        self.assertTrue(target["met"])
        self.assertNotIn("value", target)

    def test_TerraceOverItsTimeFails(self):
        document = document_of("gups", "contiguous", late("terrace", 1.0), late("swap", 2.0))
        self.assertFalse(document["all_equal"])
        self.assertFalse(targets_of(document)["step, to kernel swap"]["met"])

    def test_WeightsAreReadOnceAPassAndAsFastAsTheDriveIs(self):
        def scheduled(read_bytes):
            outcome = finished("scheduled")
            outcome.limit_bytes, outcome.steady = 1 << 29, {"counted_steps": 2, "read_bytes": 2 * read_bytes}
            return outcome
        for read, seconds, met in ((1.1 * 2**29, 1.0, True), (1.2 * 2**29, 0.8, False)):
            document = document_of("inference", "inference", finished("reactive"), scheduled(read), bound=seconds)
            wanted = targets_of(document)
            self.assertEqual(wanted["read in a step, times what does not fit"]["met"], met)
            self.assertEqual(wanted["step, to the drive's bound"]["met"], met)

    def test_OfRandomRowsNoStepIsSeen(self):
        for seen, met in ((0, True), (1, False)):
            outcome = finished("scheduled")
            outcome.steady = {"counted_steps": 2, "steps": seen}
            wanted = targets_of(document_of("embedding", "gather", finished("reactive"), outcome))
            self.assertEqual(wanted["steps that were seen"]["met"], met)
            self.assertEqual(wanted["step, to reactive"]["value"], 1)

    def test_AnotherDigestFailsWhoeverGivesIt(self):
        for competitor in ("terrace", "swap"):
            outcomes = [finished(name, digest="cd" if name == competitor else "ab") for name in ("terrace", "swap")]
            self.assertFalse(document_of("gups", "contiguous", *outcomes)["all_equal"], competitor)


class OfARun(unittest.TestCase):
    def test_SwapThatIsKilledIsTriedAgain(self):
        killed = Outcome("swap", 1.0, failure="ended by signal 9", killed_for_memory=True)
        for attempts, killed_before in ((1, 0), (2, 1), (3, 1)):
            turns = iter([killed, finished("swap"), finished("swap")])
            arguments = SimpleNamespace(fractions=[50], rounds=1, no_limit=False, sparse=False, tiers=False, no_swap=False, policies=None)
            with mock.patch.multiple(competitors, run_stock=lambda *_: finished("stock"), run_terrace=lambda *_: finished("terrace"),
                                     run_swap=lambda *_: next(turns), note=lambda _: None):
                compared = comparison.Comparison("case", [], arguments, None, attempts)
                compared.run()
            swap, = compared.outcomes("swap")
            self.assertEqual((swap.killed_before, swap.killed_for_memory), (killed_before, attempts == 1))

    def test_EachPolicyTakesItsTurnBesideReactive(self):
        for policies, names in (([], ["reactive", "scheduled"]), (["reactive"], ["reactive"]),
                                (["g10", "reactive", "joint"], ["reactive", "g10", "joint"])):
            ran = []

            def run_terrace(workload, settings, limit, name, words):
                ran.append((name, *words))
                return finished(name)

            arguments = SimpleNamespace(fractions=[50], rounds=2, no_limit=False, sparse=False, tiers=False, no_swap=True, policies=policies)
            settings = SimpleNamespace(terrace=None, pool=None)
            with mock.patch.multiple(competitors, run_stock=lambda *_: finished("stock"), run_terrace=run_terrace, note=lambda _: None), \
                    mock.patch.object(drive_speed, "speeds", side_effect=[{"read_bytes_per_second": speed} for speed in (1e9, 2e9)]):
                compared = comparison.Comparison("case", [], arguments, settings)
                compared.run()
            self.assertEqual([name for name, *_ in ran], names + names[::-1])
            self.assertEqual(ran[0], ("reactive", "--policy", "reactive"))
            if len(names) > 1:
                self.assertEqual(ran[1], ("scheduled",) if not policies else ("g10", "--policy", "g10"))
            self.assertEqual([facts["read_bytes_per_second"] for facts in compared.drive_speeds], [1e9, 2e9])

    def test_TheBoundIsTheLongerOfStockAndTheDrive(self):
        compared = comparison.Comparison("case", [], SimpleNamespace(policies=[]), None)
        compared.runs = [(None, finished("stock", 0.5))]  # a peak of 1 GiB
        self.assertEqual(compared.bound_seconds(1 << 29), {})  # the drive was not measured
        compared.drive_speeds = [{"read_bytes_per_second": 1 << 28, "write_bytes_per_second": 1 << 28, "fresh_write_bytes_per_second": 1 << 29}]
        self.assertEqual(compared.bound_seconds(1 << 29), {"transfer_seconds": 3.0, "bound_seconds": 3.0})
        self.assertEqual(compared.bound_seconds(1 << 30), {"transfer_seconds": 0.0, "bound_seconds": 0.5})
        compared.moves = "in"
        self.assertEqual(compared.bound_seconds(1 << 29)["bound_seconds"], 2.0)
        compared.moves = None
        self.assertEqual(compared.bound_seconds(1 << 29), {})
        self.assertEqual(compared.bound_seconds(None), {})

    def test_StepsOfARunThatWasEndedAreRead(self):
        with tempfile.TemporaryDirectory() as scratch:
            program = Path(scratch, "slow.py")
            program.write_text("import time\nprint('step 1     0.250 s', flush=True)\ntime.sleep(60)\n", encoding="utf-8")
            settings = competitors.Settings(Path(), Path(), Path(scratch), Path(scratch), 1, program)
            outcome = competitors.measure("swap", competitors.NoCgroup(), [], settings)
        self.assertTrue(outcome.timed_out and outcome.died_as_baseline())
        self.assertEqual((outcome.step_seconds(), outcome.given_seconds), ([0.25], 1))


class OfTheDrive(unittest.TestCase):
    def speed_by(self, answer):
        with tempfile.TemporaryDirectory() as scratch:
            doctor = Path(scratch, "terrace")
            doctor.write_text(f"#!/bin/sh\ncat <<'END'\n{answer}\nEND\nexit 6\n", encoding="utf-8")
            doctor.chmod(0o755)
            return drive_speed.read_bytes_per_second(doctor, "/somewhere")

    def test_DoctorsFigureIsTaken(self):
        checks = [{"area": "memory", "name": "pool"}, {"area": "speed", "name": "pool", "facts": {"read_bytes_per_second": 5e8}}]
        self.assertEqual(self.speed_by(json.dumps({"checks": checks})), 5e8)

    def test_TheFastestOfSeveralMeasurementsBounds(self):
        slow = {"read_bytes_per_second": 1e9, "write_bytes_per_second": 4e8, "fresh_write_bytes_per_second": 6e8}
        fast = {"read_bytes_per_second": 2e9, "write_bytes_per_second": 5e8}
        self.assertEqual(drive_speed.fastest([slow, fast]), (2e9, 6e8))
        self.assertIsNone(drive_speed.fastest([{}, {"write_bytes_per_second": 1e9}]))
        self.assertIsNone(drive_speed.fastest([]))

    def test_WithoutOneThereIsNone(self):
        for answer in ("", "no JSON", "{}", json.dumps({"checks": [{"area": "speed", "name": "pool", "facts": None}]})):
            self.assertIsNone(self.speed_by(answer), answer)


class OfTheProbes(unittest.TestCase):
    def test_LongestOfAllRoundsIsJudged(self):
        def run_of(seconds, preferred=True):
            return {"longest_fork_seconds": seconds, "real_time_probe": preferred}
        results = {"stock": [run_of(0.01)], "terrace": [run_of(0.01), run_of(0.2)]}
        row, target = pattern_probes.latency(2, "fork", results)
        self.assertEqual((row["terrace"], target["value"], target["met"]), (200, 200, False))
        self.assertIn("real-time", row["what"])
        results["stock"].append(run_of(0.01, preferred=False))
        row, _ = pattern_probes.latency(2, "fork", results)
        self.assertNotIn("real-time", row["what"])

    def test_AFailedRunSaysWhichAndWhy(self):
        with self.assertRaisesRegex(pattern_probes.Failed, "false ended with 1"):
            pattern_probes.run(["false"], 5)
        with self.assertRaisesRegex(pattern_probes.Failed, "--timeout"):
            pattern_probes.run(["sleep", 5], 0.1)


class OfTheArguments(unittest.TestCase):
    def refusal_of(self, *words):
        text = io.StringIO()
        with contextlib.redirect_stderr(text), self.assertRaises(SystemExit) as stopped:
            patterns.parse_arguments(words)
        self.assertEqual(stopped.exception.code, 2)
        return text.getvalue()

    def test_WhatCannotBeMeantIsRefusedByName(self):
        self.assertIn("/nonexistent is not a directory", self.refusal_of("gups", "--pool", "/nonexistent"))
        self.assertIn("'0' is not a whole number of at least 1", self.refusal_of("gups", "--steps", "0"))
        self.assertIn("5 is not between 10 and 100 percent", self.refusal_of("gups", "--fractions", "5"))
        self.assertIn("/nonexistent/file cannot be written", self.refusal_of("gups", "--json", "/nonexistent/file"))
        self.assertIn("'much' is not a size", self.refusal_of("sparse", "--dram", "much"))

    def test_PlansAreComparedWhereStepsComeAgain(self):
        for name, policies, warm_up in (("inference", [], 4), ("embedding", [], 4), ("gups", None, 1)):
            arguments = patterns.parse_arguments([name])
            self.assertEqual((arguments.policies, arguments.warm_up), (policies, warm_up), name)
        self.assertEqual(patterns.parse_arguments(["inference", "--policies", "g10,joint"]).policies, ["g10", "joint"])
        self.assertEqual(patterns.parse_arguments(["inference", "--steps", "5"]).warm_up, 1)
        for words in (["inference", "--policies", "g10,,joint"], ["inference", "--policies", "g10,g10"]):
            self.assertIn("write policies with commas", self.refusal_of(*words))
        self.assertIn("leaves none of 5 steps to count: say 1 to 4", self.refusal_of("inference", "--steps", "5", "--warm-up", "5"))

    def test_TheOtherCaseRunsWhenItIsAskedFor(self):
        self.assertEqual(patterns.parse_arguments(["embedding"]).cases, ["gather"])
        self.assertEqual(patterns.parse_arguments(["embedding", "--update"]).cases, ["gather", "update"])
        self.assertEqual(patterns.parse_arguments(["gups", "--scattered"]).cases, ["contiguous", "scattered"])


class OfTheWorkloads(unittest.TestCase):
    SMALL = {"inference": ["--matrices", "2", "--width", "64", "--batch", "16"], "embedding": ["--rows", "5000", "--lookups", "64", "--update"],
             "matmul": ["--width", "64"], "gups": ["--bytes", "1048576", "--updates", "64", "--scattered"],
             "merge": ["--bytes", "1048576", "--block", "1000"], "fft": ["--width", "300"],
             "transpose": ["--width", "300"], "argsort": ["--words", "100000"], "join": ["--rows", "60000", "--keys", "500"],
             "alignment": ["--length", "200"],
             "arrays": ["--arrays", "5", "--bytes", "65536", "--lookups", "64"], "sparse": ["--bytes", "1048576", "--touches", "64"]}

    def result_of(self, name, *words):
        program = BENCH / "workloads" / f"{name}.py"
        out = subprocess.run([competitors.PYTHON, program, *self.SMALL[name], "--steps", "2", *words], check=True, capture_output=True, text=True)
        return json.loads(out.stdout.splitlines()[-1])

    def test_EqualSeedsGiveEqualDigestsAndOthersDoNot(self):
        for name in self.SMALL:
            with self.subTest(name):
                first, again, other = self.result_of(name), self.result_of(name), self.result_of(name, "--seed", "1")
                self.assertEqual(first["result_sha256"], again["result_sha256"])
                self.assertEqual(len(first["steps"]), 2)
                if name != "sparse":  # which reads what it wrote, and that is always 1
                    self.assertNotEqual(first["result_sha256"], other["result_sha256"])

    def test_AMergeIsTheSortedWhole(self):
        sys.path.insert(0, str(BENCH / "workloads"))
        import merge
        import numpy
        random = numpy.random.default_rng(0)
        runs = [merge.sorted_run(random, elements) for elements in (1, 1000, 777, 1000)]
        for block in (1, 7, 100_000):
            whole = numpy.concatenate(list(merge.merged(runs, block)))
            self.assertTrue((whole == numpy.sort(numpy.concatenate(runs))).all())


if __name__ == "__main__":
    unittest.main()
