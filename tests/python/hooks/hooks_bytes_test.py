#!/usr/bin/python3
"""Which bytes leave and come back, of which shapes, and what a change on the way does."""
import errno
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # support.py
from saving import Capture, backward, batch, mlp, result, round_trip
from support import OnReference, assert_same, gradients, main
import torch


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
        expected = gradients(model, lambda m: backward(m(x).sum()))
        with self.assertLogs("terrace") as said:
            ours = gradients(model, lambda m: backward(self.under(session, m, x)))
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


if __name__ == "__main__":
    main()
