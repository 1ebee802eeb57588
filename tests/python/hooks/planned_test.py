#!/usr/bin/python3
"""A planned step through PyTorch's hooks: the same gradients, no more memory, and a step that is not as the plan expects
is the heuristic's."""
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # support.py
from support import MIB, SOURCE, assert_same, collect, engine_or_skip, main
import torch

import terrace.torch

sys.path.insert(0, str(SOURCE / "tools/bench/gpu"))
sys.path.insert(0, str(SOURCE / "tools/bench"))
from memory import ProfiledMemory  # noqa: E402

LAYERS = 16
LINKS = "emulated:1G,d2h=500M,h2d=500M"


class PlannedSteps(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(2)
        self.weight = torch.randn(1, 2**18, requires_grad=True)

    def step(self, session, layers=LAYERS, pause=0.004, at=lambda layer: None):
        """The gradient. A saved tensor of 1 MiB for each layer, between layers that take their time; `at` is called before
        each."""
        self.weight.grad = None
        with session or torch.enable_grad():
            x = self.weight * 1.5
            for layer in range(layers):
                at(layer)
                time.sleep(pause)
                x = torch.sin(x)
                x.register_hook(lambda gradient: time.sleep(pause))
            loss = x.sum()
        del x
        loss.backward()
        return self.weight.grad

    def session(self, **settings):
        session = terrace.torch.offload(**{"budget": "256M", "device": LINKS, "min_bytes": "64K", "limit": None,
                                           "compress": "off", "policy": "best", "trial": "off", **settings})
        self.addCleanup(session.close)
        return session

    def run_until_planned(self, session, expected, steps=3):
        for _ in range(80):
            if session.statistics()["planned_steps"] >= steps:
                return
            assert_same(self, [self.step(session)], [expected])
        self.fail(f"no {steps} planned steps: {session.statistics()['plan']}")

    def check(self, **settings):
        expected = self.step(None)
        session = self.session(**settings)
        self.run_until_planned(session, expected)
        self.assertEqual(session.statistics()["plan_departures"], 0)
        self.assertGreater(session.statistics()["plans_made"], 0)
        collect()
        self.assertEqual(session.statistics()["live"], 0)
        return session, expected

    def test_GradientsAreTheSame(self):
        self.check()

    def test_BehindTheHost(self):
        self.check(device=LINKS + ",lag=100ms")

    def test_EachPolicy(self):
        for policy in ("g10", "capuchin_swap", "sentinel_interval"):
            expected, session = self.step(None), self.session(policy=policy)
            for _ in range(24):  # followed or not
                assert_same(self, [self.step(session)], [expected])
            self.assertGreater(session.statistics()["plans_made"], 0, session.statistics()["plan"])

    def test_MemoryIsWithinWhatTheHeuristicTook(self):
        peaks = {}
        for policy in ("heuristic", "best"):
            expected, session = self.step(None), self.session(policy=policy)
            if policy == "best":
                self.run_until_planned(session, expected)
            else:
                for _ in range(6):
                    self.step(session)
            memory = ProfiledMemory()
            memory.begin_step()
            self.step(session)
            peaks[policy] = memory.end()["peak_allocated_bytes"]
        self.assertLessEqual(peaks["best"], peaks["heuristic"] + MIB)  # what a layer makes beside what it saves

    def test_MemoryComesNearTheLimitInTheMiddleOfAForwardPass(self):
        session, expected = self.check()
        before = session.statistics()
        planned = session._hooks.planned
        stayed = []

        def full(layer):
            if layer == LAYERS // 2:
                stayed.append(planned.follows)
                planned.used(used=2, threshold=1 << 40, brim=1)
                stayed.append(planned.follows)

        assert_same(self, [self.step(session, at=full)], [expected])
        after = session.statistics()
        self.assertEqual(stayed, [True, False])
        self.assertEqual(after["plan_departures"], before["plan_departures"] + 1)
        self.assertEqual(after["planned_steps"], before["planned_steps"])
        assert_same(self, [self.step(session)], [expected])
        self.assertEqual(session.statistics()["planned_steps"], after["planned_steps"] + 1)
        collect()
        self.assertEqual(session.statistics()["live"], 0)

    def test_AnotherStepInBetween(self):
        session, expected = self.check()
        before = session.statistics()
        shorter = self.step(None, LAYERS // 2)
        assert_same(self, [self.step(session, LAYERS // 2)], [shorter])
        self.assertEqual(session.statistics()["plan_departures"], before["plan_departures"] + 1)
        planned = session.statistics()["planned_steps"]
        self.run_until_planned(session, expected, planned + 1)
        collect()
        self.assertEqual(session.statistics()["live"], 0)

    def test_AStepThatIsNotDifferentiated(self):
        session, expected = self.check()
        with session:
            x = self.weight * 1.5
            for _ in range(4):
                x = torch.sin(x)
        del x
        assert_same(self, [self.step(session)], [expected])
        assert_same(self, [self.step(session)], [expected])
        collect()
        self.assertEqual(session.statistics()["live"], 0)

    def test_ClosedWhileAPlanIsInForce(self):
        session, _ = self.check()
        session.close()
        self.assertEqual(session.statistics()["plan"], "heuristic")

    def test_TheEnvironmentAndTheArgumentSayWhich(self):
        from terrace.torch import settings
        self.assertEqual(settings.from_environment({"TERRACE_OFFLOAD_POLICY": "g10"}).policy, "g10")
        with self.assertRaisesRegex(ValueError, "TERRACE_OFFLOAD_POLICY: 'g11' is not known; it is one of 'heuristic', 'best'"):
            settings.from_environment({"TERRACE_OFFLOAD_POLICY": "g11"})
        with self.assertRaisesRegex(ValueError, "trial: 'never' is not known; it is one of 'on', 'off'"):
            self.session(trial="never")
        with self.assertRaisesRegex(ValueError, "policy: None"):
            self.session(policy=None)

    def test_CpuTensorsAreNotPlanned(self):
        expected, session = self.step(None), self.session(device="cpu")
        for _ in range(12):
            assert_same(self, [self.step(session, pause=0)], [expected])
        self.assertIn("CPU tensors are not planned", session.statistics()["plan"])
        self.assertEqual(session.statistics()["plans_made"], 0)


if __name__ == "__main__":
    engine_or_skip()
    main()
