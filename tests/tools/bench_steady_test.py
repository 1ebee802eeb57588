#!/usr/bin/python3
"""What `terrace bench` says of the steps that count: counters are read where their first and last steps end."""
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools/bench"))

import steady


class OfAWatch(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.log = Path(self.scratch.name, "terrace.log")
        self.counters = {"written_bytes": 0}

    def say(self, number):
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"step {number}     0.250 s\n")

    def wait_for(self, is_there):
        until = time.monotonic() + 20
        while not is_there():
            self.assertLess(time.monotonic(), until, "the watch did not look")
            time.sleep(0.002)

    def look(self):
        return None if self.counters is None else dict(self.counters)

    def test_WhatTheWarmUpMovedIsLeftOut(self):
        with steady.Watch(self.log, 2, 4, self.look) as watch:
            self.counters = {"written_bytes": 70, "stall_seconds": 1.5, "paused": True}
            self.say(1)
            self.say(2)
            self.wait_for(lambda: watch.before)
            self.counters = {"written_bytes": 100, "stall_seconds": 2.0, "paused": True, "policy": "g10",
                             "plan": {"predicted_step_seconds": 0.5}}
            self.say(3)
            self.say(4)
            self.wait_for(lambda: watch.after)
            self.counters = {"written_bytes": 1000}  # what comes behind the last step
        self.assertEqual(watch.grown(), {"counted_steps": 2, "written_bytes": 30, "stall_seconds": 0.5, "policy": "g10", "predicted_step_seconds": 0.5})

    def test_ARunThatHasEndedLeavesItsTotals(self):
        with steady.Watch(self.log, 1, 3, self.look) as watch:
            self.counters = {"written_bytes": 10, "plan": {"predicted_step_seconds": 0.5}}
            self.say(1)
            self.wait_for(lambda: watch.before)
            self.counters = None
        self.assertEqual(watch.grown(), {})
        self.assertEqual(watch.grown({"written_bytes": 30}), {"counted_steps": 2, "written_bytes": 20, "predicted_step_seconds": 0.5})

    def test_StepsThatPassWhileSomebodyLooksAreCountedWhereTheyWereSeen(self):
        def look():
            if not self.seen:
                self.say(2)
            self.seen.append(1)
            return dict(self.counters)
        self.seen = []
        self.say(1)
        with steady.Watch(self.log, 1, 4, look) as watch:
            self.wait_for(lambda: watch.before)
            self.counters = {"written_bytes": 20}
            self.say(3)
            self.say(4)
        self.assertEqual(watch.grown(), {"counted_steps": 2, "written_bytes": 20})

    def test_ARunThatNeverLeftItsWarmUpSaysNothing(self):
        with steady.Watch(self.log, 2, 4, self.look) as watch:
            self.say(1)
        self.assertEqual(watch.grown({"written_bytes": 30}), {})
        with steady.Watch(Path(self.scratch.name, "none.log"), 2, 4, self.look) as watch:
            pass
        self.assertEqual(watch.grown(), {})


class OfTheFacts(unittest.TestCase):
    def test_SharesAndBytesAreOfAStep(self):
        facts = steady.facts_of({"counted_steps": 4, "written_bytes": 40, "read_bytes": 0, "stall_seconds": 1.0, "steps": 4}, 0.5)
        self.assertEqual(facts, {"written_bytes_per_step": 10, "read_bytes_per_step": 0, "stalled_share": 0.5, "known_steps": 4})
        self.assertEqual(steady.facts_of({}, 0.5), {})

    def test_LateAndUnplannedTouchesAreRunsThatWereNotBack(self):
        grown = {"planned_steps": 3, "restored_bytes": 100 * steady.RUN_BYTES, "planned_late": 4, "unplanned_faults": 1}
        self.assertAlmostEqual(steady.back_in_time(grown), 0.95)
        self.assertEqual(steady.back_in_time(grown | {"planned_late": 1000}), 0)
        for missing in ("planned_steps", "restored_bytes", "planned_late"):
            self.assertIsNone(steady.back_in_time({name: value for name, value in grown.items() if name != missing}), missing)
        self.assertIsNone(steady.back_in_time(grown | {"planned_steps": 0}))  # nothing was planned

    def test_APlanThatIsNoneIsNone(self):
        for row in ({}, {"plan": None}, {"plan": {"predicted_step_seconds": "2"}}, {"plan": {"predicted_step_seconds": 0}}, {"policy": 3}):
            self.assertEqual(steady.plan_of(row), {}, row)
        self.assertEqual(steady.plan_of({"plan_refusal": "no period"}), {"plan_refusal": "no period"})

    def test_TotalsHaveTheNamesOfRows(self):
        self.assertEqual(steady.totals_as_row({"stall_ns": 5e8, "written_bytes": 3, "pager": "active"}), {"stall_seconds": 0.5, "written_bytes": 3})


class OfAJob(unittest.TestCase):
    def row_by(self, answer):
        with tempfile.TemporaryDirectory() as scratch:
            command = Path(scratch, "terrace")
            command.write_text(f"#!/bin/sh\ncat <<'END'\n{answer}\nEND\n", encoding="utf-8")
            command.chmod(0o755)
            return steady.job_row(command, "bench-1")

    def test_TheJobIsFoundByItsName(self):
        self.assertEqual(self.row_by('{"jobs": [{"job": "other"}, {"job": "bench-1", "faults": 2}]}'), {"job": "bench-1", "faults": 2})
        for answer in ("", "no JSON", "{}", '{"jobs": []}'):
            self.assertIsNone(self.row_by(answer), answer)


if __name__ == "__main__":
    unittest.main()
