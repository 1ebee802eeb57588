#!/usr/bin/python3
"""Whole trainings on the real engine: the same losses and parameters, to the last bit, with and without offload.

Networks of tools/bench/workloads (DenseNet-121 of torchvision, a language model, a U-Net, a ReLU network), small enough for
a test; devices "cpu" and emulated ones with slow links; every codec; host memory and the pool file.
"""
import ctypes
import gc
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # support.py
from support import MIB, SOURCE, assert_same, engine_or_skip, gradients, main, needs_drive
import torch

import terrace.torch

sys.path.insert(0, str(SOURCE / "tools/bench/workloads"))
SLOW = "emulated:1G,h2d=400M,d2h=300M,latency=100us"


def build(name):
    try:
        import models
    except ImportError as error:
        raise unittest.SkipTest(f"torchvision is not there ({error})") from None
    sizes = {"densenet121": (4, 64), "transformer": (4, 128), "unet": (2, 64), "relu_cnn": (4, 48)}
    samples, size = sizes[name]
    _, _, model_of, data_of = models.MODELS[name]
    torch.manual_seed(7)
    return model_of(size, 2), data_of(samples * 3, size), samples


def train(name, session=None, autocast=False):
    """Losses of three steps, and the parameters and buffers after them."""
    model, (inputs, targets), samples = build(name)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    torch.manual_seed(8)  # dropout's
    losses = []
    for step in range(3):
        part = slice(step * samples, (step + 1) * samples)
        with session or torch.enable_grad(), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            out = model(inputs[part])
            loss = torch.nn.functional.cross_entropy(out.float(), targets[part].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses + [t.detach().clone() for t in model.state_dict().values()]


class Training(unittest.TestCase):
    expected = {}

    def check(self, name, autocast=False, **settings):
        key = name, autocast
        if key not in self.expected:
            Training.expected[key] = train(name, autocast=autocast)
        session = terrace.torch.offload(**{"budget": "256M", "device": "cpu", "min_bytes": "16K", "limit": None,
                                           "keep_last": 0, "compress": "off", **settings})
        assert_same(self, train(name, session, autocast), self.expected[key])
        gc.collect()
        counts = session.statistics()
        session.close()
        learns = settings.get("keep_last", 0) is None  # from times how many to keep; the first step's all leave
        self.assertGreater(counts["offloaded"], 10 if learns else 30)
        self.assertGreater(counts["offloaded"] + counts["kept"], 30)
        self.assertEqual(counts["live"], 0)
        self.assertEqual(counts["checksum_failures"], 0)
        return counts

    def test_EveryNetworkIsBitIdentical(self):
        for name in ("densenet121", "transformer", "unet", "relu_cnn"):
            with self.subTest(name):
                self.check(name)

    def test_SlowLinksChangeNothing(self):
        for name in ("densenet121", "transformer", "unet", "relu_cnn"):
            with self.subTest(name):
                counts = self.check(name, device=SLOW)
                self.assertGreater(counts["handed_back"] + counts["prefetched"], 0)

    def test_EveryCodecIsBitIdentical(self):
        for codec, device in (("auto", "cpu"), ("zvc", SLOW), ("zvc_exp", "cpu"), ("rle", SLOW), ("csr8", "cpu")):
            with self.subTest(codec=codec, device=device):
                counts = self.check("relu_cnn", compress=codec, device=device)
                if codec == "zvc":
                    self.assertLess(counts["frame_bytes"], counts["compressed_bytes"])

    def test_AutocastIsBitIdentical(self):
        self.check("transformer", autocast=True)

    def test_ThePoolFileIsBitIdentical(self):
        needs_drive()
        with tempfile.TemporaryDirectory(prefix="terrace-python.", dir="/var/tmp") as directory:
            for name, device in (("transformer", "cpu"), ("relu_cnn", SLOW)):
                with self.subTest(name=name, device=device):
                    counts = self.check(name, device=device, budget="16M", tiers=("dram", "nvme"), nvme_bytes="1G",
                                        directory=directory)
                    self.assertGreater(counts["nvme_written_bytes"], MIB)

    def test_LearnedStepsChangeNothing(self):
        for settings in ({"keep_last": None}, {"keep_last": 5}, {"prefetch": 0}, {"prefetch": "1M"}):
            with self.subTest(**settings):
                self.check("relu_cnn", device=SLOW, **settings)

    def test_AFullBudgetChangesNothing(self):
        with self.assertLogs("terrace"):
            counts = self.check("transformer", budget="16M")
        self.assertGreater(counts["kept_when_full"], 0)


class Growth(unittest.TestCase):
    """A mixture of experts: what the experts save that were not chosen is never asked for."""

    def test_TwoHundredStepsWithTensorsThatAreNeverAskedFor(self):
        from terrace.torch.memory import anonymous_bytes
        torch.manual_seed(1)
        experts = torch.nn.ModuleList(torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(),
                                                          torch.nn.Linear(256, 64)) for _ in range(4))
        session = terrace.torch.offload(budget="64M", device="cpu", min_bytes="4K", limit=None, keep_last=0)
        resident, counts = [], []
        loss = None
        for step in range(200):
            with session:
                outs = [expert(torch.randn(256, 64)) for expert in experts]
                loss = outs[step % 4].square().mean()
            loss.backward()
            if step % 50 == 49:
                del outs, loss
                gc.collect()
                ctypes.CDLL(None).malloc_trim(0)  # what is free in malloc's arenas comes and goes
                resident.append(anonymous_bytes())
                counts.append(session.statistics())
        self.assertEqual([c["live"] for c in counts], [0] * 4)
        self.assertEqual(len({c["dram_content_bytes"] for c in counts}), 1)
        self.assertEqual(session._hooks.by_id, {})
        self.assertEqual(session._hooks._by_storage, {})
        self.assertLess(resident[-1] - resident[0], MIB // 2)

    def test_GraphsThatStayAliveAcrossStepsAreKept(self):
        session = terrace.torch.offload(budget="64M", device="cpu", min_bytes="1K", limit=None, keep_last=0)
        model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 64))
        x = torch.randn(256, 64)
        expected = gradients(model, lambda m: self.backward(m(x).sum()))
        with session:
            waiting = model(x).sum()
        for _ in range(5):
            with session:
                loss = model(x).sum()
            loss.backward()
        model.zero_grad()
        waiting.backward()
        assert_same(self, [waiting.detach(), *(p.grad for p in model.parameters())], expected)

    @staticmethod
    def backward(loss):
        loss.backward()
        return loss


if __name__ == "__main__":
    engine_or_skip()
    main()
