#!/usr/bin/python3
"""What breaks is said, or worked around, and never computed with: drives, budgets, limits, libraries."""
import os
import resource
import subprocess
import sys
import tempfile
import unittest
from unittest import mock
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # support.py
from support import MIB, assert_same, engine_or_skip, main, needs_drive
import torch

import terrace.torch
from terrace import library
from terrace.torch import OffloadError


def model():
    torch.manual_seed(3)
    layers = (torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.GELU()) for _ in range(6))
    return torch.nn.Sequential(*layers)


def run(session=None, steps=1):
    torch.manual_seed(4)
    net, x = model(), torch.randn(2048, 512)
    for _ in range(steps):
        with session or torch.enable_grad():
            loss = net(x).square().mean()
        net.zero_grad()
        loss.backward()
    return [loss.detach(), *(p.grad.clone() for p in net.parameters())]


class Faults(unittest.TestCase):
    """Twelve tensors of 4 MiB each, more than the 16 MiB of host memory that there are."""

    @classmethod
    def setUpClass(cls):
        needs_drive()

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="terrace-python.", dir="/var/tmp")
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        self.expected = run()

    def session(self, fault=None, **settings):
        with mock.patch.dict(os.environ, {"TERRACE_FAULT": fault or ""}):
            session = terrace.torch.offload(**{
                "budget": "16M", "tiers": ("dram", "nvme"), "directory": self.directory, "nvme_bytes": "256M",
                "device": "cpu", "min_bytes": "64K", "limit": None, "keep_last": 0, "compress": "off", **settings})
        self.addCleanup(session.close)
        return session

    def test_WithoutAFaultTheDriveIsUsed(self):
        session = self.session()
        assert_same(self, run(session, 2), self.expected)
        self.assertGreater(session.statistics()["nvme_written_bytes"], 8 * MIB)

    def test_AFullPoolKeepsTensorsWhereTheyAre(self):
        session = self.session(nvme_bytes="8M")
        with self.assertLogs("terrace"):
            assert_same(self, run(session, 2), self.expected)
        self.assertGreater(session.statistics()["kept_when_full"], 0)

    def test_AFullPoolMayRaise(self):
        with self.assertRaisesRegex(RuntimeError, r"shape \[2048, 512\] and torch.float32.*larger budget"):
            run(self.session(nvme_bytes="8M", on_full="raise"))

    def test_ADriveThatRefusesWritesLeavesTensorsInMemory(self):
        for fault in ("write:2:EIO", "write:2:ENOSPC"):
            with self.subTest(fault), self.assertLogs("terrace"):
                session = self.session(fault)
                assert_same(self, run(session, 2), self.expected)
                self.assertGreater(session.statistics()["kept_when_full"], 0)

    def of_a_read(self, fault):
        """The fault is that of one read. What was read ahead in vain harms nobody: then the next one is tried."""
        for nth in range(1, 9):
            assert_same(self, run(self.session(fault.format(nth)), 2), self.expected)

    def test_ADriveThatCannotReadRaises(self):
        with self.assertRaisesRegex(RuntimeError, "EIO.*were not used"):
            self.of_a_read("read:{}:EIO")

    def test_DamagedBytesRaise(self):
        with self.assertRaisesRegex(RuntimeError, "EBADMSG.*were not used"):
            self.of_a_read("corrupt:{}")

    def test_AnEnduranceBudgetStopsWriting(self):
        # What was written today by other tests is no part of it.
        with tempfile.TemporaryDirectory() as state, mock.patch.dict(os.environ, XDG_STATE_HOME=state):
            session = self.session(writes_per_day="8M")
            with self.assertLogs("terrace") as said:
                assert_same(self, run(session, 3), self.expected)
        self.assertRegex(said.output[0], "EDQUOT")
        self.assertLessEqual(session.statistics()["nvme_written_bytes"], 8 * MIB)

    def test_AFaultThatCannotBeReadIsRefused(self):
        with self.assertRaisesRegex(OffloadError, "EINVAL"):
            self.session("explode:now")


class Missing(unittest.TestCase):
    def tearDown(self):
        library._library = None

    def test_TheLibrary(self):
        for file in ("/nowhere/libterrace_gpu.so", __file__):
            library._library = None
            with mock.patch.dict(os.environ, {"TERRACE_GPU_LIBRARY": file}):
                with self.assertRaisesRegex(OffloadError, f"{file}.*cannot be loaded"):
                    terrace.torch.offload(device="cpu")

    def test_ALibraryOfAnotherVersion(self):
        with mock.patch.dict(os.environ, {"TERRACE_GPU_LIBRARY": "libc.so.6"}):
            with self.assertRaisesRegex(OffloadError, "libc.so.6 has no terrace_offload_open.*another version"):
                terrace.torch.offload(device="cpu")

    @unittest.skipIf(torch.cuda.is_available(), "there is a GPU")
    def test_AGpu(self):
        with self.assertRaisesRegex(OffloadError, "PyTorch finds no CUDA GPU.*emulated:8G"):
            terrace.torch.offload(device="cuda")

    @unittest.skipIf(torch.cuda.is_available(), "there is a GPU")
    def test_TheDriver(self):
        from terrace.torch import settings
        from terrace.torch.engine import Engine
        with self.assertRaisesRegex(OffloadError, "'cuda' cannot be opened, .*: .*(libcuda|driver|CUDA)"):
            Engine("cuda", settings.make(budget="64M"))

    def test_AnAddressSpaceLimitIsSaid(self):
        code = ("import support, terrace.torch, resource\n"
                "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
                "resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, used + 2**28))\n"
                "try: terrace.torch.offload(budget='1G', device='cpu', limit=None)\n"
                "except terrace.torch.OffloadError as error: print('refused', error)\n"
                "else: print('opened')\n")
        ran = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).resolve().parents[1],
                             capture_output=True, text=True, timeout=60, check=True)
        self.assertRegex(ran.stdout, "^refused .+")

    def test_ALowLimitOnLockedMemoryStopsNothingWithoutAGpu(self):
        expected = run()
        soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (min(64 * 1024, soft) if soft >= 0 else 64 * 1024, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_MEMLOCK, (soft, hard))
        for device in ("cpu", "emulated:1G"):
            session = terrace.torch.offload(budget="64M", device=device, min_bytes="64K", limit=None)
            assert_same(self, run(session, 2), expected)
            session.close()


if __name__ == "__main__":
    engine_or_skip()
    main()
