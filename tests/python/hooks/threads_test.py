#!/usr/bin/python3
"""Threads that share saved tensors: what one does while the other is in the engine, step by step and in earnest."""
import sys
import threading
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # support.py
from saving import result
from support import OnReference, engine_or_skip, main
import torch

import terrace.torch


class Interrupted(OnReference):
    """Another thread gets its turn where the interpreter lock is dropped; here the same one plays its part."""

    def setUp(self):
        super().setUp()
        self.hooks = self.session()._hooks
        self.tensor = result(torch.randn(64))


class Sharing(Interrupted):
    """A record that is being made, or that dies."""

    def save_and_restore(self):
        """What the other thread does meanwhile."""
        self.assertTrue(torch.equal(self.hooks.unpack(self.hooks.pack(self.tensor)), self.tensor))

    def once_in(self, owner, name, after):
        """The other thread's turn comes during the next call of it."""
        real = getattr(owner, name)

        def interrupted(*arguments):
            setattr(owner, name, real)
            if after:
                code = real(*arguments)
                self.save_and_restore()
                return code
            self.save_and_restore()
            return real(*arguments)
        setattr(owner, name, interrupted)

    def test_WhatIsJustBeingStoredIsNotShared(self):
        for after in (False, True):
            self.once_in(self.reference, "store_left", after)
            packed = self.hooks.pack(self.tensor)
            self.assertTrue(torch.equal(self.hooks.unpack(packed), self.tensor))
            del packed
            self.assertEqual(self.reference.live(), 0)

    def test_WhatDiesIsNotShared(self):
        for owner, name in ((self.hooks, "forget"), (self.reference, "release")):
            for after in (False, True):
                packed = self.hooks.pack(self.tensor)
                self.once_in(owner, name, after)
                with self.nothing_unraisable():
                    del packed
                self.assertEqual(self.reference.live(), 0)


class Choosing(Interrupted):
    """One hands a tensor back while the other lets go of its memory: one of source and copy remains."""

    def setUp(self):
        super().setUp()
        self.reference.hold = True
        self.packed = self.hooks.pack(self.tensor)

    def twice(self):
        for _ in range(2):
            self.assertTrue(torch.equal(self.hooks.unpack(self.packed), self.tensor))

    def meanwhile(self, owner, name, action, after=False):
        real = getattr(owner, name)

        def interrupted(*arguments):
            setattr(owner, name, real)
            code = real(*arguments) if after else None
            action()
            return code if after else real(*arguments)
        setattr(owner, name, interrupted)

    def test_ItLeavesWhileItIsHandedBack(self):
        self.reference.let_leave()
        self.meanwhile(self.hooks, "_hand_back", lambda: self.hooks.outbound.poll(True))
        self.twice()

    def test_ItIsHandedBackWhileItsWayOutIsLookedAt(self):
        for after in (False, True):
            self.packed = self.hooks.pack(self.tensor)
            self.reference.let_leave()
            self.meanwhile(self.reference, "left", lambda: self.hooks.unpack(self.packed), after)
            self.hooks.outbound.poll(True)
            self.twice()
            self.assertEqual(self.hooks.counts.kept_when_full, 0)

    def test_ItIsForgottenWhileItsWayOutIsLookedAt(self):
        self.reference.let_leave()
        self.meanwhile(self.reference, "left", self.hooks.end_step)
        self.hooks.outbound.poll(True)
        self.twice()
        self.assertEqual(self.hooks.counts.kept_when_full, 0)


class Together(unittest.TestCase):
    """Threads on the real engine."""

    def run_threads(self, work, threads):
        failures = []

        def run():
            try:
                work()
            except Exception as error:
                failures.append(error)
        running = [threading.Thread(target=run) for _ in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        self.assertEqual(failures, [])

    def test_TheSameTensorIsSavedByAll(self):
        shared = torch.rand(1 << 16)
        session = terrace.torch.offload("64M", device="cpu", min_bytes=1, limit=None, keep_last=0, compress="off")

        def work():
            w = torch.ones(1 << 16, requires_grad=True)
            for _ in range(500):
                with session:
                    y = (w * shared).sum()
                gradient, = torch.autograd.grad(y, w)
                del y
                self.assertTrue(torch.equal(gradient, shared))
        self.run_threads(work, 3)
        self.assertGreater(session.statistics()["offloaded"], 0)
        session.close()

    def test_WhatIsStillLeavingIsHandedBackByAll(self):
        before = sys.getswitchinterval()
        self.addCleanup(sys.setswitchinterval, before)
        sys.setswitchinterval(1e-5)
        session = terrace.torch.offload("64M", device="emulated:1G", min_bytes=1, limit=None, keep_last=0,
                                        compress="off", on_full="raise")

        def work():
            w = torch.rand(1 << 16, requires_grad=True)
            for _ in range(200):
                with session:
                    h = torch.relu(w * 2)
                    y = (h * h).sum() + (h * 3 * h).sum()  # h is saved by four
                    del h
                torch.autograd.grad(y, w)
                del y
        self.run_threads(work, 4)
        session.close()


if __name__ == "__main__":
    engine_or_skip()
    main()
