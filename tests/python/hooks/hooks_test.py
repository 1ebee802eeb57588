#!/usr/bin/python3
"""What the hooks take, leave alone and refuse, on an engine whose state the test decides."""
import contextlib
import errno
import gc
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # support.py
from saving import Capture, backward, batch, mlp, result
from support import MIB, OnReference, assert_same, collect, gradients, main
import torch

import terrace.torch
from terrace.torch import OffloadError


class Keeping(OnReference):
    def test_AForwardPassStoresAndBackwardReleases(self):
        model, x = mlp(), batch()
        session = self.session()
        expected = gradients(model, lambda m: backward(m(x).sum()))
        with session:
            loss = model(x).sum()
        self.assertGreater(self.reference.live(), 3)
        model.zero_grad(set_to_none=True)
        loss.backward()
        assert_same(self, [loss.detach(), *(p.grad for p in model.parameters())], expected)
        self.assertEqual(self.reference.live(), 0)
        self.assertEqual(self.reference.counts["fetched"], session.statistics()["offloaded"])

    def test_ParametersLeavesAndTheirViewsStay(self):
        weight, x = torch.nn.Parameter(torch.randn(8, 8)), torch.randn(8, 8, requires_grad=True)
        frozen = torch.nn.Parameter(torch.randn(8, 8), requires_grad=False)
        with self.session() as session:
            torch.nn.functional.linear(x, weight)
            (x.t() @ weight.view(8, 8)).sum()
            x @ frozen.t()
        self.assertEqual(session.statistics()["offloaded"], 0)
        self.assertEqual(self.reference.calls, [])

    def test_SmallTensorsStay(self):
        with self.session(min_bytes="1K") as session:
            Capture.apply(result(torch.randn(255)), result(torch.randn(256)))
        self.assertEqual([call[1] for call in self.reference.calls if call[0] == "store"], [1024])
        self.assertEqual(session.statistics()["left_alone"], 1)

    def test_SparseMetaAndEmptyTensorsStay(self):
        sparse = torch.randn(8, 8).relu().to_sparse()
        with self.session() as session:
            torch.sparse.mm(sparse, torch.randn(8, 8, requires_grad=True))
            Capture.apply(result(torch.randn(0, 4)))
            torch.randn(8, 8, device="meta", requires_grad=True).clone().exp()
        self.assertGreaterEqual(session.statistics()["left_alone"], 3)
        self.assertEqual(self.reference.calls, [])

    def test_AnotherThreadsAndEnclosedHooksAreSeparate(self):
        seen = []
        with self.session() as session:
            threading.Thread(target=lambda: result(torch.randn(64)).exp()).start()
            with torch.autograd.graph.saved_tensors_hooks(lambda t: seen.append(t) or t, lambda t: t):
                result(torch.randn(64)).exp()
        self.assertEqual(len(seen), 1)
        self.assertEqual(session.statistics()["offloaded"], 0)

    def test_NothingIsSavedWithoutGradients(self):
        with self.session() as session, torch.no_grad():
            mlp()(batch())
        self.assertEqual(session.statistics()["packed"], 0)

    def test_AnExceptionInForwardLeavesNeitherHooksNorTensors(self):
        class Failing(torch.nn.Module):
            def forward(self, x):
                raise KeyError("forward")

        model = torch.nn.Sequential(*mlp(), Failing())
        session = self.session()
        with self.assertRaises(KeyError), session:
            model(batch())
        collect()
        self.assertEqual(self.reference.live(), 0)
        result(torch.randn(64)).exp()
        self.assertEqual(self.reference.live(), 0)

    def test_AGraphThatIsDroppedReleases(self):
        session = self.session()
        for _ in range(3):
            with session:
                out = mlp()(batch())
            self.assertGreater(self.reference.live(), 0)
            del out
            collect()
            self.assertEqual(self.reference.live(), 0)

    def test_ASessionThatIsDroppedTakesNothingOfAnotherAlong(self):
        for hold in (False, True):
            self.reference.hold = hold
            dropped, session = self.session(), self.session()
            del dropped
            with session:
                y = result(torch.randn(64)).exp()
                loss = y.sum()
                collect()
                self.assertEqual(self.reference.live(), 1)
                y.sin()
            loss.backward()
            self.assertIn(("close",), self.reference.calls)
            self.reference.calls.clear()

    def test_ADroppedSessionClosesItsEngineWithoutTheCollector(self):
        collect()
        gc.disable()
        self.addCleanup(gc.enable)
        for limit in (None, "1G"):
            with self.subTest(limit=limit):
                closed = self.reference.calls.count(("close",))
                session = self.session(limit=limit)
                with session:
                    loss = mlp()(batch()).sum()
                del session
                self.assertEqual(self.reference.calls.count(("close",)), closed)  # the graph needs it
                loss.backward()
                del loss
                self.assertEqual(self.reference.calls.count(("close",)), closed + 1)


class Refusing(OnReference):
    def test_DoubleBackwardIsRefused(self):
        x = torch.randn(64, requires_grad=True)
        with self.session():
            y = x.exp().sum()
        with self.refused(r"shape \[64\] and torch.float32.*create_graph=True.*outside of.*or under terrace.torch.keep\(\)"):
            torch.autograd.grad(y, x, create_graph=True)

    def test_WhatTheRefusalSaysToWriteWorks(self):
        x = torch.randn(64, requires_grad=True)

        def second(block):
            with block:
                y = (x.exp() * x.sin()).sum()
            first, = torch.autograd.grad(y, x, create_graph=True)
            return torch.autograd.grad(first.square().sum(), x)[0]

        session = self.session()

        @contextlib.contextmanager
        def kept():
            with session, terrace.torch.keep():
                yield

        self.assertTrue(torch.equal(second(kept()), second(torch.enable_grad())))
        self.assertGreater(session.statistics()["left_alone"], 2)

    def test_ASavedTensorMayBeLookedAt(self):
        y = None
        with self.session():
            y = result(torch.randn(64)).exp()
        self.assertTrue(torch.equal(y.grad_fn._saved_result, y))

    def test_AFullEngineKeepsTheTensor(self):
        self.reference.errors["store"] = errno.ENOSPC
        session = self.session()
        with self.assertLogs("terrace") as said:
            for _ in range(2):
                with session:
                    out = mlp()(batch()).sum()
                out.backward()
        self.assertEqual(len(said.output), 1)
        self.assertRegex(said.output[0], "ENOSPC.*larger budget.*said once")
        self.assertGreater(session.statistics()["kept_when_full"], 4)

    def test_AFullEngineMayRaise(self):
        self.reference.errors["store"] = errno.ENOSPC
        with self.refused(r"shape \[64\] and torch.float32.*ENOSPC.*on_full"):
            with self.session(on_full="raise"):
                result(torch.randn(64)).exp()

    def test_LostBytesRaiseAndAreNotUsed(self):
        for call in ("fetch", "arrive"):
            self.reference.errors = {}
            with self.session(prefetch=0):
                y = result(torch.randn(64)).exp().sum()
            self.reference.errors[call] = errno.EBADMSG
            with self.refused("EBADMSG.*were not used"):
                y.backward()

    def test_AnEngineThatCannotBeOpenedSaysWhy(self):
        self.reference.errors["open"] = errno.EPERM
        with self.assertRaisesRegex(OffloadError, "EPERM.*told to refuse"):
            self.session()

    def test_ArgumentsAreChecked(self):
        for name, value in (("budget", "8 GB"), ("budget", "1K"), ("tiers", ()), ("tiers", ("dram", "tape")),
                            ("compress", "zip"), ("min_bytes", -1), ("min_bytes", 1.5), ("keep_last", -1),
                            ("device", "tpu"), ("writes_per_day", "much"), ("on_full", "drop"), ("limit", "all")):
            with self.assertRaisesRegex(ValueError, name):
                self.session(**{name: value})
        with self.assertRaisesRegex(ValueError, "directory"):
            self.session(tiers=("dram", "nvme"), directory="/nowhere/at/all")

    def test_SettingsReachTheEngine(self):
        self.session(tiers=("dram", "nvme"), directory="/tmp", nvme_bytes="2G", compress="zvc", writes_per_day="1G",
                     writes_total="2T")
        got = self.reference.configuration
        self.assertEqual([got["dram_bytes"], got["nvme_bytes"], got["nvme_directory"], got["compress"],
                          got["writes_per_day_bytes"], got["writes_total_bytes"]],
                         [64 * MIB, 2**31, b"/tmp", b"zvc", 2**30, 2**41])


if __name__ == "__main__":
    main()
