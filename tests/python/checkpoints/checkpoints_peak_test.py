#!/usr/bin/python3
"""An offload of checkpoints' inputs beside checkpointing alone: the peak of tensors is lower, also with a device that is far
behind its host and with most on the drive; and where the peak lies elsewhere nothing leaves.

Asserted are bytes: each allocation and free of PyTorch's allocator, as its profiler records them (the peak of one step),
and the engine's counts. The last two run in processes of their own, whose own peaks say where a step's most memory is.
"""
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # support.py
from support import MIB, SOURCE, assert_same, collect, engine_or_skip, gradients, main, needs_drive, skip
import torch
from torch.utils.checkpoint import checkpoint

import terrace.torch

sys.path[:0] = [str(SOURCE / "tools/bench/gpu"), str(SOURCE / "tools/bench")]
from memory import ProfiledMemory  # noqa: E402

DEPTH = 16
LAG = "emulated:1G,lag=300ms"


class Block(torch.nn.Module):
    """What it recomputes is eight times its input, of 1 MiB."""

    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(64, 256), torch.nn.Linear(256, 64)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


class Stack(torch.nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        torch.manual_seed(3)
        self.blocks, self.reentrant = torch.nn.ModuleList(Block() for _ in range(DEPTH)), reentrant
        self.stem = torch.nn.Linear(64, 64)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=self.reentrant)
        return x


class BesideCheckpointing(unittest.TestCase):
    def setUp(self):
        self.of_inputs(MIB)

    def of_inputs(self, nbytes):
        torch.manual_seed(4)
        self.input_bytes, self.batch = nbytes, torch.randn(nbytes // 256, 64)

    def step(self, model, session):
        def run(model):
            with session or torch.enable_grad():
                loss = model(self.batch * 1.5).square().mean()
            loss.backward()
            return loss
        return gradients(model, run)

    def peak(self, model, session):
        memory = ProfiledMemory()
        memory.begin_step()
        result = self.step(model, session)
        return memory.end()["peak_allocated_bytes"], result

    def check(self, reentrant, share=4, **settings):
        """The peak is at most checkpointing's, and of its inputs all but `share` are gone from it."""
        if not reentrant and not hasattr(torch.utils.checkpoint, "set_checkpoint_early_stop"):
            skip("this PyTorch does not save the inputs of a checkpoint with use_reentrant=False, it holds them")
        model = Stack(reentrant)
        self.step(model, None)
        alone, expected = self.peak(model, None)
        session = terrace.torch.offload(**{"budget": "128M", "device": "cpu", "min_bytes": "64K", "limit": None,
                                           "compress": "off", "only": "checkpoints", **settings})
        self.addCleanup(session.close)
        if session._hooks.watch is not None:  # where a process of hundreds of MiB has its peak is another test's subject
            session._hooks.watch = None
        for _ in range(4):
            assert_same(self, self.step(model, session), expected)
        before = session.statistics()
        with_offload, result = self.peak(model, session)
        after = session.statistics()
        assert_same(self, result, expected)
        self.assertLessEqual(with_offload, alone - (DEPTH - share) * self.input_bytes)
        self.assertEqual(after["handed_back"], before["handed_back"])
        self.assertGreaterEqual(after["offloaded"] - before["offloaded"], DEPTH - share)
        collect()
        self.assertEqual(session.statistics()["live"], 0)
        return after

    def test_Reentrant(self):
        self.check(True)

    def test_NotReentrant(self):
        self.check(False)

    def test_BehindTheHost(self):
        self.check(True, device=LAG)

    def test_NotReentrantBehindTheHost(self):
        self.check(False, device=LAG)

    def test_EverythingOffloadedBesideCheckpoints(self):
        self.check(True, only=None)

    def test_ToTheDrive(self):
        needs_drive()
        self.of_inputs(4 * MIB)
        for reentrant in (True, False):
            with self.subTest(reentrant=reentrant):
                counts = self.check(reentrant, share=6, tiers=("nvme",), budget="16M", directory="/var/tmp", nvme_bytes="256M")
                self.assertGreater(counts["nvme_written_bytes"], 16 * MIB)
                self.assertGreater(counts["nvme_read_bytes"], 16 * MIB)


# Blocks of one kind and, with "large first", one whose recomputation takes more than everything else. 8 MiB an input.
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[2])
import torch
import terrace.torch
from torch.utils.checkpoint import checkpoint

torch.manual_seed(3)
weight = torch.randn(1, requires_grad=True)
batch = torch.randn(2**21)

def segment(times):
    def run(x):
        for _ in range(times):
            x = torch.sin(x * weight)
        return x
    return run

segments = [segment(40 if sys.argv[1] == "large first" else 2), *[segment(2)] * 11]
with terrace.torch.offload("1G", device="cpu", limit=None, compress="off", only="checkpoints") as session:
    for _ in range(5):
        x = batch * weight
        for each in segments:
            x = checkpoint(each, x, use_reentrant=True)
        x.sum().backward()
        del x
print(session.statistics()["offloaded"])
"""


class WhereThePeakIs(unittest.TestCase):
    def run_program(self, case):
        done = subprocess.run([sys.executable, "-c", PROGRAM, case, str(SOURCE / "liballoc/python")], capture_output=True, text=True,
                              check=False, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        return int(done.stdout), [line for line in done.stderr.splitlines() if line.startswith("terrace:")]

    def test_EqualSegmentsLeave(self):
        offloaded, said = self.run_program("equal")
        self.assertGreaterEqual(offloaded, 3 * 8)
        self.assertEqual(said, [])

    def test_WithALargeFirstSegmentNothingLeaves(self):
        offloaded, said = self.run_program("large first")
        self.assertEqual(offloaded, 0)
        self.assertEqual(len(said), 1)
        self.assertIn("the peak lies elsewhere", said[0])


if __name__ == "__main__":
    engine_or_skip()
    main()
