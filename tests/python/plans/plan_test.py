#!/usr/bin/python3
"""terrace.torch.plan: gradients and buffers have the same bits whatever is chosen, the peak is the predicted one, a budget is met or
refused, and the model is afterwards what it was.

Bytes are asserted, times are not: what a step takes is the machine's. The peak of planned steps is that of PyTorch's allocator.
"""
import contextlib
import os
import sys
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # support.py
from support import MIB, assert_same, collect, engine_or_skip, gradients, main, skip
import torch

import terrace.torch
from terrace.torch.plans import calibrate, trials
from terrace.torch.plans.choose import Chooser
from terrace.torch.plans.observe import BACKWARD, BEGIN, END, FORWARD, SAVED, WANTED, Block, Mark, Step
from terrace.torch.plans.recompute import Recompute
from terrace.torch.plans.replay import KEEP, OFFLOAD, RECOMPUTE, Link, Overheads, Replay, Way
from terrace.torch.plans.segments import find_segments

DEVICE = "emulated:1G,d2h=500M,h2d=500M"
HOST = "128M"


class Layer(torch.nn.Module):
    """Takes a list, as DenseNet's layers do; changes its own tensors in place, and running statistics and random numbers."""

    def __init__(self, channels, growth):
        super().__init__()
        self.norm, self.conv = torch.nn.BatchNorm2d(channels), torch.nn.Conv2d(channels, growth, 3, padding=1)
        self.relu, self.drop = torch.nn.ReLU(inplace=True), torch.nn.Dropout(0.2)

    def forward(self, features):
        return self.drop(self.conv(self.relu(self.norm(torch.cat(features, 1)))))


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.stem = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU(inplace=True),
                                        torch.nn.Conv2d(16, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU(inplace=True),
                                        torch.nn.MaxPool2d(2))
        self.layers = torch.nn.ModuleList(Layer(16 + 8 * index, 8) for index in range(8))
        self.head = torch.nn.Linear(80, 10)

    def forward(self, images):
        features = [self.stem(images)]
        for layer in self.layers:
            features.append(layer(features))
        return self.head(torch.cat(features, 1).mean((2, 3)))


def taking(seconds):
    """Steps that take these times one after the other, with nothing in force."""
    patches = contextlib.ExitStack()
    patches.enter_context(mock.patch.object(trials, "put_in_force", lambda *_: contextlib.nullcontext()))
    patches.steps = patches.enter_context(mock.patch.object(trials, "time_step", side_effect=seconds))
    return patches


def loss_of(output):
    return output.square().mean()


class Planned(unittest.TestCase):
    def setUp(self):
        self.model, self.batch = Network(), torch.randn(16, 3, 64, 64)

    def plan(self, budget="100%", **settings):
        plan = terrace.torch.plan(self.model, self.batch, budget, **{"loss": loss_of, "device": DEVICE, "host_budget": HOST,
                                                                     "curve": False, "steps": 1, **settings})
        self.addCleanup(plan.remove)
        return plan

    def step(self, seed=7):
        def run(model):
            torch.manual_seed(seed)
            loss = loss_of(model(self.batch))
            loss.backward()
            return loss
        return gradients(self.model, run) + [buffer.clone() for buffer in self.model.buffers()]

    def check(self, **settings):
        """Six planned steps are those of a model that was never planned; its peak is that predicted, within 5%. What leaves does so at
        the link's pace beside the processor's: that may be a stash's tensor more or less."""
        expected = [self.step(seed) for seed in range(6)]
        self.setUp()
        plan = self.plan(**settings)
        for seed in range(6):
            assert_same(self, self.step(seed), expected[seed])
        stash = 6 * MIB if "offload" in plan.choices.values() or "compress" in plan.choices.values() else 0
        self.assertLessEqual(abs(plan.measured.peak_bytes - plan.predicted.peak_bytes), 0.05 * plan.predicted.peak_bytes + stash)
        collect()
        for counts in plan.statistics().values():
            self.assertEqual(counts["live"], 0)
        return plan

    def test_Keep(self):
        plan = self.check(policy="keep")
        self.assertEqual(set(plan.choices.values()), {"keep"})

    def test_RecomputedBitsAndBuffersAreTheSame(self):
        plan = self.check(policy="checkpoint")
        self.assertEqual(set(plan.choices.values()), {"recompute"})
        self.assertLess(plan.measured.peak_bytes, 0.6 * plan.plain.peak_bytes)

    def test_Offloaded(self):
        plan = self.check(policy="offload")
        self.assertGreater(plan.statistics()["offload"]["offloaded"], 0)
        self.assertLess(plan.measured.peak_bytes, 0.75 * plan.plain.peak_bytes)

    def test_ABudgetIsMet(self):
        plan = self.check(budget="60%")
        self.assertLessEqual(plan.predicted.peak_bytes, plan.budget_bytes)
        self.assertLessEqual(plan.measured.peak_bytes, 1.05 * plan.budget_bytes + 6 * MIB)

    def test_KindsSayWhatMayBeChosen(self):
        plan = self.check(budget="65%", kinds=("recompute",))
        self.assertEqual(set(plan.choices.values()), {"keep", "recompute"})

    def test_Superneurons(self):
        self.check(budget="70%", policy="superneurons")

    def test_PublishedPolicies(self):
        if not self.command():
            skip("the program terrace is not there, in PATH or beside the engine")
        for policy in ("flashneuron", "capuchin"):
            with self.subTest(policy=policy):
                self.setUp()
                plan = self.plan("70%", policy=policy)
                self.assertLessEqual(plan.predicted.peak_bytes, plan.budget_bytes)
                self.assertIn(set(plan.choices.values()) - {"keep"}, [{"offload"}, {"recompute"}, {"compress"}, {"offload", "recompute"},
                                                                      {"offload", "compress"}])

    @staticmethod
    def command():
        from terrace.torch.plans.published import find_command
        try:
            return find_command()
        except ValueError:
            return None

    def test_TheModelIsAfterwardsWhatItWas(self):
        before = [buffer.clone() for buffer in self.model.buffers()]
        state, types = torch.get_rng_state(), [type(module) for module in self.model.modules()]
        plan = self.plan(policy="checkpoint")
        assert_same(self, list(self.model.buffers()), before)
        self.assertTrue(torch.equal(torch.get_rng_state(), state))
        self.assertTrue(all(parameter.grad is None for parameter in self.model.parameters()))
        plan.remove()
        self.assertEqual([type(module) for module in self.model.modules()], types)

    def test_ABudgetThatCannotBeMetIsRefusedWithTheLeast(self):
        with self.assertRaisesRegex(ValueError, r"budget: .* cannot be met with policy='best', which takes .* the least that was found is"):
            self.plan("5%")
        self.assertTrue(all("_terrace_plan" not in vars(module) for module in self.model.modules()))

    def test_TheCurveNeverFallsWithLessMemory(self):
        plan = self.plan("60%", curve=True)
        seconds = [each for _, each in plan.curve if each is not None]
        self.assertGreater(len(seconds), 2)
        self.assertEqual(seconds, sorted(seconds))
        self.assertIn("60%", plan.text())

    def test_WhatCannotBeIsNamed(self):
        with self.assertRaisesRegex(ValueError, "policy: 'none' is not known; it is one of 'best', 'superneurons', 'flashneuron'"):
            self.plan(policy="none")
        with self.assertRaisesRegex(ValueError, "kinds: .*'keep'"):
            self.plan(kinds=("keep",))
        with self.assertRaisesRegex(ValueError, "loss: the model returns list"):
            terrace.torch.plan(ReturnsAList(), self.batch, "50%")


class ReturnsAList(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)

    def forward(self, images):
        return [self.conv(images)]


class Segments(unittest.TestCase):
    def names(self, model, batch):
        return [segment.name for segment in find_segments(model, lambda: model(batch))]

    def test_LayersAndRunsOfASequential(self):
        found = self.names(Network(), torch.randn(4, 3, 64, 64))
        self.assertEqual([name for name in found if name.startswith("layers")], [f"layers.{index}" for index in range(8)])
        self.assertTrue(any(" to " in name for name in found), found)

    def test_WhatRunsTwiceIsNoSegment(self):
        class Twice(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.once, self.twice = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

            def forward(self, x):
                return self.twice(self.twice(self.once(x)))
        self.assertEqual(self.names(Twice(), torch.randn(4, 8)), ["once"])

    def test_WhatChangesItsInputIsNoSegment(self):
        class InPlace(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear, self.relu = torch.nn.Linear(8, 8), torch.nn.ReLU(inplace=True)

            def forward(self, x):
                return self.relu(self.linear(x))
        self.assertEqual(self.names(InPlace(), torch.randn(4, 8)), ["linear"])


class Recomputed(unittest.TestCase):
    def test_AnInputThatIsChangedSinceIsRefused(self):
        weight, x = torch.randn(4, requires_grad=True), torch.randn(4) * 1.0
        y = Recompute("layer", [])(lambda value: torch.sin(torch.cos(value * weight)), (x,), {})
        x.add_(1)
        with self.assertRaisesRegex(RuntimeError, "what layer was called with was changed in place"):
            y.sum().backward()


class Replayed(unittest.TestCase):
    """A step by hand: two segments that save 8 MiB each in a second each, and a backward pass of a second for each."""

    def setUp(self):
        marks = [Mark(BEGIN, 0, 0), Mark(SAVED, 0, 0), Mark(END, 0, 0), Mark(BEGIN, 1, 1), Mark(SAVED, 1, 1), Mark(END, 1, 1),
                 Mark(FORWARD, 0, -1), Mark(WANTED, 1, 1), Mark(WANTED, 0, 0), Mark(BACKWARD, 0, -1)]
        # ticks: 0 begin, 1 block, 2 saved, 3 end, 4 begin, 5 block, 6 saved, 7 end, 8 forward, 9 wanted, 10 gradient, 11 wanted, 12 backward
        ticks = [0, 2, 3, 4, 6, 7, 8, 9, 11, 12]
        seconds = [0, 1, 0, 0, 1, 0, 0, 0, 1, 1]
        blocks = [Block(8 * MIB, 1, 12, 4), Block(8 * MIB, 5, 11, 8), Block(MIB, 10, 13, 13)]
        self.made = Step([None, None], marks, ticks, seconds, blocks, [0, 1], {0: set(), 1: set()}, 100, 4.0)

    def predict(self, first, second, seconds_per_byte=0.0):
        way = Way(0.0, seconds_per_byte)
        return Replay(self.made, {OFFLOAD: Link(way, way)}).predict((first, second))

    def test_Kept(self):
        found = self.predict(KEEP, KEEP)
        self.assertEqual((found.peak_bytes, found.seconds), (100 + 17 * MIB, 4.0))

    def test_RecomputedTakesItsForwardPassAgainAndFreesWhatItSaved(self):
        found = self.predict(RECOMPUTE, KEEP)
        self.assertEqual((found.peak_bytes, found.seconds), (100 + 9 * MIB, 5.0))

    def test_WhatARecomputationTakesForItselfCounts(self):
        self.made.blocks.append(Block(10 * MIB, 1, 3, 3))
        self.assertEqual(self.predict(KEEP, KEEP).peak_bytes, 100 + 18 * MIB)
        self.assertEqual(self.predict(RECOMPUTE, KEEP).peak_bytes, 100 + 19 * MIB)

    def test_AwayOverAFastLink(self):
        found = self.predict(OFFLOAD, KEEP)
        self.assertEqual((found.peak_bytes, found.seconds, found.away_bytes), (100 + 9 * MIB, 4.0, 8 * MIB))

    def test_TheWayBackIsWaitedFor(self):
        found = self.predict(OFFLOAD, KEEP, 0.5 / (8 * MIB))
        self.assertEqual((found.seconds, found.waited_seconds), (4.5, 0.5))

    def test_OverheadsCountForWhatIsMovedAndWhatIsComputedAgain(self):
        replay = Replay(self.made, {OFFLOAD: Link(Way(0.25, 0.0), Way(0.25, 0.0))})
        replay.overheads = Overheads({OFFLOAD: 0.5}, 0.1)
        self.assertAlmostEqual(replay.predict((OFFLOAD, KEEP)).seconds, 4.25 + 0.5 * 0.5)  # waited for 0.25, moved for 0.5
        self.assertAlmostEqual(replay.predict((RECOMPUTE, KEEP)).seconds, 5.1)
        self.assertEqual(replay.predict((KEEP, KEEP)).seconds, 4.0)

    def test_OverheadsAreWhatStepsTakeBeyondThePrediction(self):
        replay = Replay(self.made, {OFFLOAD: Link(Way(0.25, 0.0), Way(0.25, 0.0))})
        # A warm-up, then in force and plain in turn: each kind's step takes 1.5 of plain's, so 6 s of 4.
        with taking([9.0, 1.5, 1.0, 3.0, 2.0] * 2):
            found = calibrate.calibrate(None, replay, {}, None)
        away, again = replay.predict((OFFLOAD, OFFLOAD)), replay.predict((RECOMPUTE, RECOMPUTE))
        self.assertAlmostEqual(found.moving[OFFLOAD], (6 - away.seconds) / away.moving_seconds[OFFLOAD])
        self.assertAlmostEqual(found.recomputing, max(0, (6 - again.seconds) / again.recomputed_seconds))

    def test_TheFastestOfTheFinalistsIsTakenAtWhatItTook(self):
        way = Way(0.0, 0.0)
        chooser = Chooser(Replay(self.made, {OFFLOAD: Link(way, way)}))
        away, again = chooser.of((OFFLOAD, KEEP)), chooser.of((RECOMPUTE, KEEP))
        self.assertEqual((away.peak_bytes, again.peak_bytes), (100 + 9 * MIB, 100 + 9 * MIB))
        slow = chooser.of((RECOMPUTE, RECOMPUTE))
        # A warm-up, then steps in force with plain ones: what was predicted faster takes 1.1 of plain's at first, and 1.5 at last; the
        # other takes 1.2, and 1.3 as it is tried for the last time. The third is not tried twice.
        of_away, of_again, of_slow = ([9.0, *[time, 1.0] * 3] for time in (1.1, 1.2, 1.4))
        away_later, again_later = [9.0, *[1.5, 1.0] * 3], [9.0, 1.2, 1.0, 2.4, 2.0, 1.1, 1.0]
        with taking([*of_away, *of_again, *of_slow, *away_later, *again_later, 9.0, *[1.3, 1.0] * 5]) as patches:
            found = trials.fastest(None, self.made, [away, again, slow], {}, None)
            self.assertEqual(patches.steps.call_count, 5 * 7 + 11)
        self.assertEqual(found.choice, again.choice)
        self.assertAlmostEqual(found.seconds, 1.3 * self.made.plain_seconds)

    def test_ShortStepsAreTriedMoreOften(self):
        self.made.plain_seconds = 0.5
        chosen = Chooser(Replay(self.made, {})).of((RECOMPUTE, KEEP))
        with taking([9.0, *[1.0, 1.0] * 6]) as patches:
            trials.fastest(None, self.made, [chosen], {}, None)
            self.assertEqual(patches.steps.call_count, 13)

    def test_WhatFitsAsItIsIsNotTried(self):
        chooser = Chooser(Replay(self.made, {OFFLOAD: Link(Way(0.25, 0.0), Way(0.25, 0.0))}))
        self.assertEqual(chooser.finalists(chooser.uniform(KEEP).peak_bytes), [chooser.uniform(KEEP)])

    def test_WhatFitsIsTriedForSomeSegmentsAndForAllUnlessItIsMuchSlower(self):
        chooser = Chooser(Replay(self.made, {OFFLOAD: Link(Way(9.0, 0.0), Way(9.0, 0.0))}))
        again = chooser.of((RECOMPUTE, KEEP))
        self.assertEqual(chooser.finalists(again.peak_bytes), [again, chooser.uniform(RECOMPUTE)])

    def test_WhatHasNotLeftIsHandedBack(self):
        found = self.predict(OFFLOAD, KEEP, 100 / (8 * MIB))
        self.assertEqual((found.seconds, found.peak_bytes), (4.0, 100 + 17 * MIB))


if __name__ == "__main__":
    engine_or_skip()
    if "TERRACE_GPU_LIBRARY" in os.environ:  # the program is built beside it
        os.environ.setdefault("TERRACE_COMMAND", str(Path(os.environ["TERRACE_GPU_LIBRARY"]).resolve().parents[1] / "bin/terrace"))
    main()
