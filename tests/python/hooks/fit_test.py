#!/usr/bin/python3
"""Offload declines while the job fits, and takes what exceeds the limit. A process of its own: memory is measured."""
import ctypes
import os
import sys
import unittest
import weakref
from collections import deque
from unittest import mock
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # support.py
from support import MIB, engine_or_skip, main
import torch

import terrace.torch
from terrace.torch.fit import Fit
from terrace.torch.memory import CudaMemory


class Memory:
    def __init__(self, used):
        self.bytes = used

    def used(self, stored_bytes):
        return self.bytes - stored_bytes


class Held:
    def __init__(self, nbytes):
        self.nbytes, self.source, self.id, self.buffer = nbytes, object(), 0, None

    @property
    def record(self):
        return self


class OfAGpu(unittest.TestCase):
    def test_TheLimitIsTheBudgetsShareOfTheGpu(self):
        with mock.patch("torch.cuda.mem_get_info", return_value=(2**33, 2**34)):
            for budget, limit in (("50%", 2**33), ("100%", 2**34), ("4G", 2**32), ("64G", 2**34), ("", 2**34)):
                with mock.patch.dict(os.environ, TERRACE_GPU_BUDGET=budget):
                    self.assertEqual(CudaMemory(0).limit(), limit)


class Deciding(unittest.TestCase):
    """On figures that the test makes up: a limit of 640, so that memory is looked at every 10."""

    def setUp(self):
        self.memory, self.spilled, self.stored = Memory(0), [], []
        self.fit = Fit(640, self.memory, lambda: self.stored, lambda: 0, self.spill)

    def spill(self, record):
        self.spilled.append(record)
        return True

    def save(self, nbytes):
        record = Held(nbytes)
        self.assertTrue(self.fit.keeps(nbytes))
        self.fit.hold(weakref.ref(record))
        self.memory.bytes += nbytes
        self.fit.saved(nbytes)
        return record

    def test_WhatFitsStays(self):
        held = [self.save(100) for _ in range(5)]
        with self.assertLogs("terrace") as said:
            self.fit.end_step()
            self.fit.end_step()
        self.assertEqual(self.spilled, [])
        self.assertEqual(len(said.output), 1)
        self.assertEqual(len(held), 5)

    def test_TheOldestLeaveFirstAndTheExcessLeavesAtOnceInTheNextStep(self):
        held = [self.save(100) for _ in range(6)]
        self.assertEqual(self.spilled, held[:1])  # 600 of 576
        with self.assertLogs("terrace") as said:
            self.fit.end_step()
        self.assertRegex(said.output[0], "24 bytes of saved tensors leave in each step")
        self.assertFalse(self.fit.keeps(20))
        self.assertFalse(self.fit.keeps(20))
        self.assertTrue(self.fit.keeps(20))

    def test_TheLastOneThatAnotherThreadTakesFirstIsNobodysError(self):
        class TakenMeanwhile(deque):
            def __len__(self):
                return super().__len__() + 1

        self.fit._held = TakenMeanwhile()
        self.memory.bytes = 640
        self.assertEqual(self.fit.look(), 640)
        self.assertEqual(self.spilled, [])

    def test_WhatHasLeftCountsAsNeeded(self):
        gone = Held(100)
        gone.source, gone.id = None, 1
        self.stored.append(gone)
        held = self.save(550)
        with self.assertLogs("terrace") as said:
            self.fit.end_step()
        self.assertRegex(said.output[0], "needs 650 bytes.* 74 bytes of saved")
        self.assertEqual((self.spilled, held.nbytes), ([], 550))

    def test_AtTheBrimTheProgramWaitsForWhatLeaves(self):
        freed = iter([False, True, False, True, True])

        def let_go():
            one = next(freed)
            self.memory.bytes -= 20 if one else 0
            return one

        fit = Fit(640, self.memory, lambda: [], lambda: 0, self.spill, let_go)
        self.memory.bytes = 640
        fit.saved(10)
        self.assertEqual(self.memory.bytes, 600)  # the brim is at 608
        self.assertEqual(list(freed), [True])

    def test_AWaitInVainIsTheLastOfTheStep(self):
        asked = []
        fit = Fit(640, self.memory, lambda: [], lambda: 0, self.spill, lambda: asked.append(1) is not None)
        self.memory.bytes = 640
        with mock.patch("terrace.torch.fit.PATIENCE_S", 0.01):
            fit.saved(10)
            tries = len(asked)
            self.assertGreater(tries, 1)
            fit.saved(10)
            self.assertEqual(len(asked), tries)
            with self.assertLogs("terrace"):
                fit.end_step()
            fit.saved(10)
            self.assertGreater(len(asked), tries)

    def test_WhereNothingLeavesNobodyWaits(self):
        self.memory.bytes = 640
        self.fit.saved(10)
        self.assertEqual(self.spilled, [])


class Fitting(unittest.TestCase):
    def run_steps(self, limit):
        session = terrace.torch.offload(budget="512M", device="cpu", min_bytes="64K", limit=limit, compress="off")
        model = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.GELU())
                                      for _ in range(8)))
        x, losses = torch.randn(4096, 512), []
        for _ in range(3):
            with session:
                loss = model(x).square().mean()
            model.zero_grad()
            loss.backward()
            losses.append(loss.item())
        return session.statistics(), losses

    def test_AJobThatFitsIsLeftAloneAndToldSo(self):
        with self.assertLogs("terrace") as said:
            counts, _ = self.run_steps("8G")
        self.assertEqual(counts["offloaded"], 0)
        self.assertEqual(len(said.output), 1)
        self.assertRegex(said.output[0], r"the job fits, it needs [0-9.]+ MiB of 8.0 GiB")

    def test_WhatExceedsTheLimitLeaves(self):
        from terrace.torch.memory import anonymous_bytes
        ctypes.CDLL(None).malloc_trim(0)  # what the other test left would be taken again, and nothing exceed
        with self.assertLogs("terrace") as said:
            counts, losses = self.run_steps(anonymous_bytes() + 120 * MIB)
        self.assertRegex(said.output[0], "of saved tensors leave in each step")
        self.assertGreater(counts["offloaded"], 0)
        self.assertLess(counts["stored_bytes"], 3 * 16 * 4096 * 512 * 4)
        self.assertEqual(losses[0], losses[1])


if __name__ == "__main__":
    engine_or_skip()
    main()
