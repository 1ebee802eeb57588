#!/usr/bin/python3
"""Memory that is given away before a copy of it has ended is overwritten at once, so that what would go wrong does.

In other offloads a buffer was used again while a copy still read it, and gradients were wrong without a word
(pytorch/torchtitan#2581). Freed memory usually keeps its bytes for a while, so such a race passes most tests. Here the C
library overwrites what is freed, at once (MALLOC_PERTURB_), and the emulated device's links are slow and its stream lags, so
that copies are under way long after the host went on. Each step has other numbers, so a copy that reads a buffer of the step
before is found as well. The host's memory is as small as may be: its parts are used again and again.
"""
import ctypes
import os
import sys
import unittest
from pathlib import Path

POISON = 0xA5
ENVIRONMENT = {"MALLOC_PERTURB_": str(POISON), "MALLOC_MMAP_THRESHOLD_": str(32 * 2**20), "MALLOC_TRIM_THRESHOLD_": str(2**40)}
if __name__ == "__main__" and any(os.environ.get(name) != value for name, value in ENVIRONMENT.items()):
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **ENVIRONMENT})  # read when the C library starts

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # support.py
from support import KIB, MIB, assert_same, collect, engine_or_skip, main, needs_drive, skip  # noqa: E402
import torch  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import terrace.torch  # noqa: E402
from terrace.torch.compat import storage_of  # noqa: E402

LAYERS, STEPS = 24, 6
SLOW = "emulated:1G,lag=100ms,d2h=800M,h2d=800M"


def address_of_freed():
    tensor = torch.zeros(256 * KIB)
    return storage_of(tensor).data_ptr()


class GivenAway(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(2)
        self.weight = torch.randn(1, 2**18, requires_grad=True)

    def step(self, number, session, segment):
        self.weight.grad = None
        with session or torch.enable_grad():
            x = self.weight * (number + 1.25)
            for layer in range(LAYERS):
                x = segment(lambda t, layer=layer: torch.sin(t) * (1 + layer / 64), x)
            loss = x.sum()
        del x
        loss.backward()
        return self.weight.grad.clone()

    def check(self, segment=lambda function, x: function(x), **settings):
        expected = [self.step(number, None, segment) for number in range(STEPS)]
        self.assertFalse(torch.equal(expected[0], expected[1]))
        session = terrace.torch.offload(**{"budget": "64M", "device": SLOW, "min_bytes": "64K", "limit": None, "compress": "off",
                                           **settings})
        self.addCleanup(session.close)
        session._hooks.watch = None
        for number in range(STEPS):
            assert_same(self, [self.step(number, session, segment)], [expected[number]])
        collect()
        counts = session.statistics()
        self.assertGreater(counts["left_in_order"] + counts["prefetched"], 2 * STEPS)
        self.assertEqual(counts["live"], 0)
        return counts

    def test_TheCLibraryOverwritesWhatIsFreed(self):
        """Else nothing here would find anything."""
        address = address_of_freed()
        if ctypes.string_at(address + 64 * KIB, 16) != bytes([POISON]) * 16:
            skip("this C library does not overwrite freed memory (MALLOC_PERTURB_ is glibc's)")

    def test_Plain(self):
        self.check()

    def test_LittleHostMemory(self):
        self.check(budget="16M")

    def test_TheDrive(self):
        needs_drive()
        counts = self.check(budget="16M", tiers=("nvme",), directory="/var/tmp", nvme_bytes="512M",
                            device="emulated:1G,d2h=800M,h2d=800M")
        self.assertGreater(counts["nvme_written_bytes"], 4 * MIB)

    def test_Compressed(self):
        self.check(compress="zvc_exp")

    def test_WithoutLag(self):
        self.check(device="emulated:1G,d2h=800M,h2d=800M")

    def test_InputsOfReentrantCheckpoints(self):
        self.check(lambda function, x: checkpoint(function, x, use_reentrant=True), only="checkpoints")

    def test_InputsOfCheckpointsThatAreNotReentrant(self):
        if not hasattr(torch.utils.checkpoint, "set_checkpoint_early_stop"):
            skip("this PyTorch does not save the inputs of a checkpoint with use_reentrant=False, it holds them")
        self.check(lambda function, x: checkpoint(function, x, use_reentrant=False), only="checkpoints")


if __name__ == "__main__":
    engine_or_skip()
    main()
