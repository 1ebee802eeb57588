#!/usr/bin/python3
"""Threads that share saved tensors: what one does while the other is in the engine, step by step and in earnest."""
import threading
import unittest

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


if __name__ == "__main__":
    engine_or_skip()
    main()
