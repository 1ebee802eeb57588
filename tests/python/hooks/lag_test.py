#!/usr/bin/python3
"""A device that is far behind the host, as a GPU is: a whole forward pass is queued before its first layer has run.

The emulated device's default stream lags by more than a step's forward pass takes. Asserted are the two figures that
say whether offloading does anything there: the most memory that tensors take, in the order of the program, which is
the order of the stream; and how many tensors backward got back because they had never left.
"""
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # support.py
from support import MIB, SOURCE, assert_same, collect, engine_or_skip, main
import torch

import terrace.torch

sys.path.insert(0, str(SOURCE / "tools/bench/gpu"))
sys.path.insert(0, str(SOURCE / "tools/bench"))
from memory import ProfiledMemory  # noqa: E402

LAG = "emulated:1G,lag=300ms"
LAYERS = 48


class BehindTheHost(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(2)
        self.weight = torch.randn(1, 2**18, requires_grad=True)

    def step(self, session, layers=LAYERS):
        """The gradient."""
        self.weight.grad = None
        with session or torch.enable_grad():
            x = self.weight * 1.5
            for _ in range(layers):
                x = torch.sin(x)
            loss = x.sum()
        del x
        loss.backward()
        return self.weight.grad

    def session(self, **settings):
        session = terrace.torch.offload(**{"budget": "128M", "device": LAG, "min_bytes": "64K", "limit": None,
                                           "compress": "off", **settings})
        self.addCleanup(session.close)
        return session

    def peak(self, session):
        """Of one step's tensors, and its gradient."""
        memory = ProfiledMemory()
        memory.begin_step()
        gradient = self.step(session)
        return memory.end()["peak_allocated_bytes"], gradient

    def warm_up(self, session, expected):
        """Until a step began with host memory for two, as the copies back of one are queued still. How many steps that
        takes is up to how fast the kernel locks pages: on a busy machine more than on an idle one."""
        two_steps = 2 * (LAYERS - 3) * MIB
        for step in range(40):
            had = session.statistics()["dram_bytes"]
            assert_same(self, [self.step(session)], [expected])
            if step >= 3 and two_steps <= had == session.statistics()["dram_bytes"]:
                return
        self.fail(f"host memory for two steps is not there after 40: {had} of {two_steps} bytes")

    def check_peak_and_what_came_back(self, **settings):
        plain_peak, expected = self.peak(None)
        self.assertGreater(plain_peak, LAYERS * MIB)
        session = self.session(**settings)
        self.warm_up(session, expected)
        for _ in range(2):
            before = session.statistics()
            peak, gradient = self.peak(session)
            counts = {name: count - before[name] for name, count in session.statistics().items()
                      if isinstance(count, int)}
            assert_same(self, [gradient], [expected])
            self.assertLess(peak, plain_peak / 4)
            self.assertEqual(counts["handed_back"], 0)
            self.assertEqual(counts["kept"], 3)  # a 16th
            self.assertEqual(counts["offloaded"], LAYERS - 3)
        collect()
        self.assertEqual(session.statistics()["live"], 0)

    def test_TensorsLeaveInTheOrderOfTheStream(self):
        self.check_peak_and_what_came_back()

    def test_SlowLinksChangeNothing(self):
        self.check_peak_and_what_came_back(device=LAG + ",d2h=400M,h2d=400M")

    def test_WhatWouldBeCompressedLeavesAsItIs(self):
        self.check_peak_and_what_came_back(compress="zvc")

    def test_ChangedInPlaceBeforeItHasLeftIsSaid(self):
        session = self.session()
        with session:
            x = (self.weight * 1.5).clone()
            y = torch.sin(x)
            x.add_(1)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            y.sum().backward()


class NearTheLimit(unittest.TestCase):
    """Memory comes near the limit while everything is still queued: nothing is waited for, all of it can leave."""

    def test_TheBrimIsMetInTheOrderOfTheStream(self):
        torch.manual_seed(2)
        weight = torch.randn(1, 2**20, requires_grad=True)  # 4 MiB: the C library gives such blocks back at once
        session = terrace.torch.offload(budget="512M", device="emulated:1G,lag=2s", min_bytes="64K", compress="off",
                                        limit=None)
        self.addCleanup(session.close)
        hooks = session._hooks

        class Full:
            """Each look finds memory full, until nothing but the stash is left."""
            def used(self, stored_bytes):
                return hooks.outbound.stashed_bytes() * 1000

        from terrace.torch.fit import Fit
        hooks.fit = Fit(1000 * 4 * MIB, Full(), hooks.records, lambda: 0, hooks.outbound.spill, hooks.outbound.let_go)
        hooks.fit._eager = 2**40
        with session:
            x = weight * 1.5
            for _ in range(16):
                x = torch.sin(x)
        self.assertLessEqual(hooks.outbound.stashed_bytes(), 4 * MIB)


if __name__ == "__main__":
    engine_or_skip()
    main()
