#!/usr/bin/python3
"""Memory that offload frees goes back to the system on the CPU, too. A process of its own: memory is measured."""
import sys
import unittest
from unittest import mock
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # support.py
from support import MIB, engine_or_skip, main
import torch

import terrace.torch
from terrace.torch.memory import FreedMemory, anonymous_bytes

TENSORS, BYTES = 100, 2 * MIB  # under what glibc's malloc gives a mapping of its own once it has seen such


def size_of(steps):
    return sum(tensor.numel() for stay in steps for tensor in stay)  # of one byte each


class Freed(unittest.TestCase):
    def setUp(self):
        self.session = terrace.torch.offload("64M", ("nvme",), device="cpu", limit=None, compress="off", nvme_bytes="1G")
        self.addCleanup(self.session.close)
        self.x = torch.ones(BYTES // 4, requires_grad=True)

    def step(self, tensors=TENSORS):
        """What stays, little as it is, lies between what leaves."""
        stay = []
        with self.session:
            out = self.x.clone()
            for _ in range(tensors):
                out = out.sin()
                stay.append(torch.empty(96 * 2**10, dtype=torch.uint8).fill_(1))
        out.sum().backward()
        return stay

    def test_BetweenStepsLittleStaysResident(self):
        stay = [self.step() for _ in range(2)]
        self.x.grad = None
        before = anonymous_bytes() - size_of(stay)

        def kept_after_a_step():
            stay.append(self.step())
            return anonymous_bytes() - before - size_of(stay)

        with mock.patch.object(FreedMemory, "WORTH_BYTES", 2**60):
            withheld = max(kept_after_a_step() for _ in range(6))  # it differs from step to step
        given_back = kept_after_a_step()
        self.assertGreater(withheld - given_back, 40 * MIB, "the test frees nothing that glibc would keep")
        self.assertLess(given_back, 26 * MIB)

    def calls(self):
        return self.session._hooks.freed._trim.call_count

    def test_ItIsGivenBackAtTheTurnAndAtTheEndOfAStep(self):
        self.session._hooks.freed._trim = mock.Mock()
        for step in (1, 2):
            self.step()
            self.assertEqual(self.calls(), 2 * step)

    def test_AStepThatSavesLittleIsLeftAlone(self):
        self.session._hooks.freed._trim = mock.Mock()
        self.step(tensors=20)
        self.assertEqual(self.calls(), 0)

    def test_SoIsAJobThatFits(self):
        self.session = terrace.torch.offload("64M", ("nvme",), device="cpu", limit="8G", nvme_bytes="1G")
        self.session._hooks.freed._trim = mock.Mock()
        self.step()
        self.assertEqual(self.calls(), 0)
        self.session.close()

    def test_NorIsAnythingDoneForADevice(self):
        session = terrace.torch.offload("64M", device="emulated:1G", limit=None)
        self.assertIsNone(session._hooks.freed)
        session.close()


if __name__ == "__main__":
    engine_or_skip()
    main()
