#!/usr/bin/python3
"""What the hooks keep, share, hand back and refuse, on an engine whose state the test decides."""
import copy
import errno
import io
import os
import pickle
import threading
import unittest

from support import MIB, OnReference, assert_same, collect, gradients, main
import torch
from torch.utils.checkpoint import checkpoint

import terrace.torch
from terrace.torch import OffloadError


def mlp():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.GELU(),
                               torch.nn.Linear(64, 8))


def batch():
    torch.manual_seed(4)
    return torch.randn(16, 32)


class Capture(torch.autograd.Function):
    """Saves what it is given, and keeps what it gets back."""

    got = None

    @staticmethod
    def forward(context, *tensors):
        context.save_for_backward(*tensors)
        return sum(t.detach().real.float().sum() for t in tensors)

    @staticmethod
    def backward(context, gradient):
        Capture.got = context.saved_tensors
        return tuple(torch.zeros_like(t) for t in Capture.got)


def round_trip(session, *tensors):
    with session:
        out = Capture.apply(*tensors)
    out.backward()
    got, Capture.got = Capture.got, None
    return got


def result(tensor):
    """A tensor as operations make them: not a leaf, with a gradient to compute."""
    return tensor.clone().requires_grad_().clone()


class Keeping(OnReference):
    def test_AForwardPassStoresAndBackwardReleases(self):
        model, x = mlp(), batch()
        session = self.session()
        expected = gradients(model, lambda m: self.backward(m(x).sum()))
        with session:
            loss = model(x).sum()
        self.assertGreater(self.reference.live(), 3)
        model.zero_grad(set_to_none=True)
        loss.backward()
        assert_same(self, [loss.detach(), *(p.grad for p in model.parameters())], expected)
        self.assertEqual(self.reference.live(), 0)
        self.assertEqual(self.reference.counts["fetched"], session.statistics()["offloaded"])

    @staticmethod
    def backward(loss):
        loss.backward()
        return loss

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


class Geometry(OnReference):
    def check(self, *tensors, **settings):
        before = [(t.clone(), t.size(), t.stride(), t.dtype, t.is_conj(), t.is_neg()) for t in tensors]
        for got, (content, *geometry) in zip(round_trip(self.session(**settings), *tensors), before):
            self.assertTrue(torch.equal(got.detach(), content))
            self.assertEqual([got.size(), got.stride(), got.dtype, got.is_conj(), got.is_neg()], geometry)
        self.assertEqual(self.reference.live(), 0)

    def test_EveryTypeComesBack(self):
        for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128):
            self.check(result(torch.randn(33).to(dtype)))

    def test_IntegersAndMasksComeBack(self):
        x = result(torch.randn(40))
        for dtype in (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
            with self.session():
                out = Capture.apply(x, (torch.randn(40) * 10).to(dtype))
            out.backward()
            self.assertIs(Capture.got[1].dtype, dtype)

    def test_StridesAndOffsetsComeBack(self):
        base = result(torch.randn(6, 8, 10))
        for view in (base.transpose(0, 2), base[1:, ::2, 3:], base[:, 2], base.select(0, 5), base.flip(1),
                     base[0, 0, 0], base.expand(2, 6, 8, 10), base.permute(2, 0, 1)[1:4]):
            self.check(view)

    def test_ViewsOfOneStorageAreStoredOnceAndRestoredOnce(self):
        qkv = result(torch.randn(16, 96))
        views = qkv.chunk(3, dim=1)
        session = self.session()
        with session:
            out = Capture.apply(*views) + Capture.apply(qkv.t(), views[2])
        self.assertEqual(self.reference.counts["stored"], 1)
        out.backward()
        self.assertEqual(self.reference.counts["fetched"], 1)
        self.assertEqual(session.statistics()["shared"], 4)

    def test_RestoredViewsShareMemory(self):
        qkv = result(torch.randn(16, 96))
        first, second = round_trip(self.session(), qkv[:, :48], qkv[:, 48:])
        self.assertEqual(second.data_ptr() - first.data_ptr(), 48 * 4)

    def test_ConjugateAndNegativeViewsComeBack(self):
        z = result(torch.randn(12, dtype=torch.complex64))
        self.check(z.conj())
        self.check(torch._neg_view(result(torch.randn(12))))
        self.check(z, z.conj(), z.conj().t())

    def test_ASliceOfALargeTensorIsStoredAlone(self):
        data = result(torch.randn(64, 1024))
        self.check(data[8:16])
        self.assertEqual([call[1] for call in self.reference.calls if call[0] == "store"], [8 * 1024 * 4])

    def test_ASliceKeepsItsAlignment(self):
        data = result(torch.randn(4096))
        got, = round_trip(self.session(), data[129:300])
        self.assertEqual(got.storage_offset(), 1)  # 129 elements are 516 bytes
        self.assertTrue(torch.equal(got, data[129:300]))


class Leaving(OnReference):
    def setUp(self):
        super().setUp()
        self.reference.hold = True

    def test_TheSourceIsHeldUntilItHasLeft(self):
        session = self.session()
        x = result(torch.randn(256))
        with session:
            y = x.exp()
        address = y.data_ptr()
        loss = y.sum()
        del y
        self.assertNotEqual(result(torch.zeros(256)).data_ptr(), address)
        loss.backward()
        self.assertEqual(session.statistics()["handed_back"], 1)
        self.assertEqual(self.reference.counts["fetched"], 0)
        self.assertEqual(self.reference.live(), 0)

    def test_ItsMemoryIsFreeOnceItHasLeft(self):
        session = self.session()
        x = result(torch.randn(256))
        with session:
            y = x.exp()
            weak = torch.multiprocessing.reductions.StorageWeakRef(y._storage() if hasattr(y, "_storage")
                                                                   else y.untyped_storage())
            loss = y.sum()
            del y
            self.assertFalse(weak.expired())
            self.reference.let_leave()
            x.sin()  # the next save looks
            self.assertTrue(weak.expired())
        loss.backward()

    def test_AnInPlaceChangeOnTheWayRaisesAsPyTorchDoes(self):
        for let_leave in (False, True):
            with self.session():
                y = result(torch.randn(64)).exp()
                y.add_(1)
                if let_leave:
                    self.reference.let_leave()
                    result(torch.randn(8)).exp()
            with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation: .*FloatTensor .*64.* is at "
                                                      "version 1; expected version 0"):
                y.sum().backward()

    def test_AnInPlaceChangeOfWhatStaysRaisesAsPyTorchDoes(self):
        weight, x = torch.nn.Parameter(torch.randn(8, 8)), torch.randn(8, 8, requires_grad=True)
        with self.session(min_bytes="1M"):
            y = torch.nn.functional.linear(x, weight).exp()
        with torch.no_grad():
            weight.add_(1)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            y.sum().backward()

    def test_AChangeAfterItHasLeftChangesNothing(self):
        expected = torch.randn(64)
        with self.session():
            y = result(expected).exp()
            self.reference.let_leave()
            result(torch.randn(8)).exp()
            out = y.clone()
            y.zero_()
        x = y.grad_fn
        out.sum().backward()
        self.assertIsNotNone(x)

    def test_ANewVersionIsStoredAnew(self):
        self.reference.hold = False
        x = result(torch.randn(64))
        with self.session():
            y = x * 2
            first = Capture.apply(y)
            y.mul_(3)
            second = Capture.apply(y)
        second.backward(retain_graph=True)
        self.assertTrue(torch.equal(Capture.got[0], x * 2 * 3))
        Capture.got = None
        first.backward()
        self.assertTrue(torch.equal(Capture.got[0], x * 2))

    def test_WhatTheEngineCannotTakeStaysIntact(self):
        self.reference.errors["left"] = errno.EIO
        model, x = mlp(), batch()
        session = self.session()
        expected = gradients(model, lambda m: Keeping.backward(m(x).sum()))
        with self.assertLogs("terrace") as said:
            ours = gradients(model, lambda m: Keeping.backward(self.under(session, m, x)))
        assert_same(self, ours, expected)
        self.assertEqual(self.reference.live(), 0)
        self.assertEqual(len(said.output), 1)
        self.assertRegex(said.output[0], "cannot be stored, EIO.*said once")
        self.assertGreater(session.statistics()["kept_when_full"], 0)

    def test_WhatTheEngineCannotTakeAfterAllMayRaise(self):
        self.reference.errors["left"] = errno.ENOMEM
        with self.refused("ENOMEM.*page-locked.*ulimit -l.*on_full"):
            with self.session(on_full="raise"):
                result(torch.randn(64)).exp()

    @staticmethod
    def under(session, model, x):
        with session:
            return model(x).sum()


class Refusing(OnReference):
    def test_DoubleBackwardIsRefused(self):
        x = torch.randn(64, requires_grad=True)
        with self.session():
            y = x.exp().sum()
        with self.refused(r"shape \[64\] and torch.float32.*create_graph=True"):
            torch.autograd.grad(y, x, create_graph=True)

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


class Steps(OnReference):
    def step(self, session, model, x):
        with session:
            loss = model(x).sum()
        loss.backward()

    def test_KeepLastKeepsThoseThatBackwardFetchesFirst(self):
        session, model = self.session(keep_last=2), mlp()
        self.step(session, model, batch())
        first = len([call for call in self.reference.calls if call[0] == "store"])
        self.reference.calls.clear()
        self.step(session, model, batch())
        stores = [call for call in self.reference.calls if call[0] == "store"]
        self.assertEqual(len(stores), first - 2)
        self.assertEqual(session.statistics()["kept"], 2)

    def test_WhatIsStillInUseIsNotStoredAgain(self):
        session, x = self.session(keep_last=None), result(torch.randn(64))
        for _ in range(2):
            y = None
            with session:
                y = x.exp()
            y.sum().backward(retain_graph=True)
        self.assertGreaterEqual(session.statistics()["kept"], 1)

    def test_AStepEndsWithBackward(self):
        session = self.session()
        for _ in range(3):
            self.step(session, mlp(), batch())
        self.assertEqual(self.reference.calls.count(("end_step",)), 3)
        self.assertEqual(self.reference.counts["dropped"], 0)

    def test_AStepWithAnotherGraphAliveDoesNotForgetIt(self):
        session, model, x = self.session(), mlp(), batch()
        with session:
            first, second = model(x).sum(), model(x).mean()
        first.backward()
        second.backward()
        self.assertEqual([call for call in self.reference.calls if "step" in call[0]], [("next_step",)])
        self.assertEqual(self.reference.counts["dropped"], 0)
        self.assertEqual(self.reference.live(), 0)

    def test_AnExplicitStepForgets(self):
        session = self.session()
        with session:
            y = result(torch.randn(64)).exp().sum()
            result(torch.randn(8)).exp()
        session.step()
        with self.refused("step"):
            y.backward()

    def test_AnExplicitStepDoesNotForgetWhatIsStillHere(self):
        self.reference.hold = True
        session = self.session()
        with session:
            y = result(torch.randn(64)).exp().sum()
        session.step()
        y.backward()

    def test_ABackwardThatFailsDoesNotEndOffloading(self):
        session = self.session()
        with session:
            y = result(torch.randn(64)).exp()
            y.register_hook(lambda gradient: 1 / 0)
            loss = y.exp().sum()
        with self.assertRaises(ZeroDivisionError):
            loss.backward()
        del y, loss
        collect()
        self.reference.calls.clear()
        self.step(session, mlp(), batch())
        self.assertGreater(len([call for call in self.reference.calls if call[0] == "store"]), 3)
        self.assertIn(("end_step",), self.reference.calls)

    def test_PrefetchStaysWithinItsBound(self):
        for bound, prefetched in ((0, 0), (1024, 2)):
            session = self.session(prefetch=bound)
            with session:
                x = result(torch.randn(128))
                for _ in range(6):
                    x = x.exp()
            held = []
            x.grad_fn.register_hook(lambda *_: held.append(session.statistics()["prefetched"]))
            x.sum().backward()
            self.assertLessEqual(held[0], prefetched)
            self.assertEqual(session.statistics()["prefetched"] > 0, bound > 0)


class Compositions(OnReference):
    def both(self, run, model=None, **settings):
        model = model or mlp()
        expected = gradients(model, lambda m: run(m, None))
        session = self.session(**settings)
        assert_same(self, gradients(model, lambda m: run(m, session)), expected)
        collect()
        self.assertEqual(self.reference.live(), 0)
        return session

    @staticmethod
    def under(session, function):
        if session is None:
            return function()
        with session:
            return function()

    def test_BackwardInsideTheBlock(self):
        def run(model, session):
            def step():
                loss = model(batch()).sum()
                loss.backward()
                return loss
            return self.under(session, step)
        self.both(run)

    def test_RetainGraph(self):
        def run(model, session):
            loss = self.under(session, lambda: model(batch()).sum())
            loss.backward(retain_graph=True)
            loss.backward()
            return loss
        self.both(run)

    def test_GradientAccumulation(self):
        def run(model, session):
            for scale in (1, 2, 3):
                loss = self.under(session, lambda: model(batch() * scale).sum())
                loss.backward()
            return loss
        self.both(run)

    def test_Autocast(self):
        def run(model, session):
            def step():
                with torch.autocast("cpu", torch.bfloat16):
                    return model(batch()).float().sum()
            loss = self.under(session, step)
            loss.backward()
            return loss
        self.both(run)

    def test_CheckpointsOfBothKinds(self):
        for reentrant in (True, False):
            def run(model, session):
                def step():
                    x = batch().requires_grad_()
                    hidden = checkpoint(lambda t: model[:3](t), x, use_reentrant=reentrant)
                    loss = checkpoint(lambda t: model[3:](t), hidden, use_reentrant=reentrant).sum()
                    return loss
                loss = self.under(session, step)
                self.under(session, loss.backward)
                return loss
            self.both(run)

    def test_WhatACheckpointRecomputesIsNotStored(self):
        session, model = self.session(), mlp()
        with session:
            loss = checkpoint(model, batch().requires_grad_().clone(), use_reentrant=True).sum()
            stored = self.reference.counts["stored"]
            loss.backward()
        self.assertEqual(stored, 1)
        self.assertEqual(self.reference.counts["stored"], stored)

    def test_AModuleIsOffloadedUntilRemoved(self):
        model = mlp()
        expected = gradients(model, lambda m: Keeping.backward(m(batch()).sum()))
        handle = terrace.torch.offload_module(model, session=self.session())
        assert_same(self, gradients(model, lambda m: Keeping.backward(m(batch()).sum())), expected)
        self.assertGreater(handle.session.statistics()["offloaded"], 3)
        self.assertIsInstance(model, torch.nn.Sequential)
        with self.assertRaisesRegex(ValueError, "already"):
            terrace.torch.offload_module(model, session=handle.session)
        handle.remove()
        handle.remove()
        before = handle.session.statistics()["packed"]
        model(batch()).sum().backward()
        self.assertEqual(handle.session.statistics()["packed"], before)
        self.assertIs(type(model), torch.nn.Sequential)

    def test_CopiesOfAnOffloadedModuleArePlain(self):
        model = mlp()
        expected = model(batch())
        handle = terrace.torch.offload_module(model, session=self.session())
        stream = io.BytesIO()
        torch.save(model, stream)
        stream.seek(0)
        for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), torch.load(stream)):
            self.assertIs(type(twin), torch.nn.Sequential)
            self.assertTrue(torch.equal(twin(batch()), expected))
            self.assertNotIn("_terrace_offload", vars(twin))
        handle.remove()

    def test_AForkedChildDoesNotTouchTheEngine(self):
        session = self.session()
        with session:
            y = result(torch.randn(64)).exp().sum()
        child = os.fork()
        if child == 0:
            os._exit(self.in_child(session, y))
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        y.backward()

    def in_child(self, session, inherited):
        self.reference.calls.clear()
        try:
            inherited.backward()
        except RuntimeError as error:
            if "forked child" not in str(error):
                return 2
        else:
            return 3
        with session:
            result(torch.randn(64)).exp().sum().backward()
        session.close()
        return 0 if not self.reference.calls else 4

    def test_ManyThreadsShareASession(self):
        session, failures = self.session(), []
        x = batch()  # before the threads: they share the generator
        expected = gradients(mlp(), lambda m: Keeping.backward(m(x).sum()))

        def train(model):
            for _ in range(10):
                with session:
                    loss = model(x).sum()
                model.zero_grad(set_to_none=True)
                loss.backward()
                if not all(torch.equal(a, b) for a, b in zip((p.grad for p in model.parameters()), expected[1:])):
                    failures.append("a gradient differs")

        threads = [threading.Thread(target=train, args=(mlp(),)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertEqual(self.reference.live(), 0)
        self.assertEqual(self.reference.counts["dropped"], 0)

    def test_ClosedMeansNotOffloaded(self):
        session = self.session()
        with session:
            y = result(torch.randn(64)).exp().sum()
        session.close()
        session.close()
        with self.refused("closed"):
            y.backward()
        with session:
            result(torch.randn(64)).exp().sum().backward()


if __name__ == "__main__":
    main()
