#!/usr/bin/python3
"""Beside what else of autograd a program may use: other hooks, transforms, traces, and tensors of other kinds."""
import contextlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # support.py
from saving import batch, mlp, result
from support import OnReference, assert_same, collect, gradients, main, needs, skip
import torch
from torch.autograd import graph
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_map
from torch.utils.checkpoint import checkpoint


def save(kept):
    """A node of the graph that saves `kept`, of whatever kind, and what its backward is given."""
    given = []

    class Keep(torch.autograd.Function):
        @staticmethod
        def forward(context, x, kept):
            context.save_for_backward(kept)
            return x * 2

        @staticmethod
        def backward(context, gradient):
            given.extend(context.saved_tensors)
            return gradient * 2, None

    return Keep.apply(result(torch.randn(4)), kept).sum(), given


class OtherHooks(OnReference):
    def test_SaveOnCpuInsideWins(self):
        with self.session() as session:
            with graph.save_on_cpu():
                loss = mlp()(batch()).sum()
            loss.backward()
        self.assertEqual(session.statistics()["packed"], 0)

    def test_WhereHooksAreRefusedNoneAreLeftBehind(self):
        session = self.session()
        for order in ((graph.disable_saved_tensors_hooks("none here"), session),
                      (session, graph.disable_saved_tensors_hooks("none here"))):
            with self.assertRaisesRegex(RuntimeError, "none here"), order[0], order[1]:
                pass
            result(torch.randn(64)).exp()
        self.assertEqual(session.statistics()["packed"], 0)
        with session:
            result(torch.randn(64)).exp()
        self.assertEqual(session.statistics()["offloaded"], 1)

    def test_CheckpointsInsideCheckpoints(self):
        def inner(model, x):
            return checkpoint(model[:3], x, use_reentrant=False)

        def run(model, session):
            with session or contextlib.nullcontext():
                hidden = checkpoint(inner, model, batch() * 2, use_reentrant=False)
                loss = model[3:](hidden).sum()
            loss.backward()
            return loss

        try:
            expected = gradients(mlp(), lambda m: run(m, None))
        except RuntimeError as error:  # 1.13
            skip(f"this PyTorch has no checkpoints inside checkpoints ({error})")
        session = self.session()
        assert_same(self, gradients(mlp(), lambda m: run(m, session)), expected)
        self.assertGreater(session.statistics()["offloaded"], 0)
        self.assertEqual(self.reference.live(), 0)

    @needs(torch.utils.checkpoint, "set_checkpoint_early_stop")
    def test_ACheckpointThatStopsEarly(self):
        def run(model, session, early):
            with session or contextlib.nullcontext(), torch.utils.checkpoint.set_checkpoint_early_stop(early):
                loss = checkpoint(model, batch().clone(), use_reentrant=False).sum()
            loss.backward()
            return loss

        for early in (True, False):
            session = self.session()
            assert_same(self, gradients(mlp(), lambda m, e=early, s=session: run(m, s, e)),
                        gradients(mlp(), lambda m, e=early: run(m, None, e)))
            self.assertEqual(self.reference.live(), 0)

    @needs(graph, "allow_mutation_on_saved_tensors")
    def test_MutationIsAllowedWherePyTorchAllowsIt(self):
        x = torch.randn(64, requires_grad=True)
        with self.session() as session, graph.allow_mutation_on_saved_tensors():
            y = x.exp()
            loss = y.sin().sum()
            expected, = torch.autograd.grad(loss, x, retain_graph=True)
            y.detach().mul_(2)
            got, = torch.autograd.grad(loss, x)
        self.assertTrue(torch.equal(got, expected))
        self.assertEqual(session.statistics()["packed"], 0)

    @needs(torch.autograd, "set_multithreading_enabled")
    def test_ABackwardOfOneThread(self):
        session = self.session()

        def run(model):
            with session:
                loss = model(batch()).sum()
            with torch.autograd.set_multithreading_enabled(False):
                loss.backward()
            return loss

        assert_same(self, gradients(mlp(), run), gradients(mlp(), run))
        self.assertGreater(session.statistics()["restored"], 4)
        self.assertEqual(self.reference.live(), 0)


class Transforms(OnReference):
    @needs(torch, "func")
    def test_VmapIsBesideTheOffload(self):
        w, x = torch.randn(32, requires_grad=True), batch()

        def run(block):
            with block:
                loss = torch.func.vmap(lambda row: (row * w.exp()).sin().sum())(x).sum()
            return torch.autograd.grad(loss, w)

        session = self.session()
        assert_same(self, run(session), run(torch.enable_grad()))
        self.assertGreater(session.statistics()["packed"], 0)
        collect()
        self.assertEqual(self.reference.live(), 0)

    @needs(torch, "func")
    def test_GradIsRefusedByPyTorchAndNothingIsLeftBehind(self):
        session = self.session()
        with session:
            with self.assertRaisesRegex(RuntimeError, "saved tensor hooks"):
                torch.func.grad(lambda t: t.sin().sum())(batch())
            loss = mlp()(batch()).sum()
        loss.backward()
        self.assertGreater(session.statistics()["restored"], 3)

    @needs(torch, "func")
    def test_JvpNeedsNoBackward(self):
        x = batch()
        with self.session() as session:
            got = torch.func.jvp(lambda t: t.sin().sum(), (x,), (x,))
        assert_same(self, got, torch.func.jvp(lambda t: t.sin().sum(), (x,), (x,)))
        self.assertEqual(session.statistics()["offloaded"], 0)

    def test_ForwardModeBesideBackward(self):
        forward_ad = torch.autograd.forward_ad
        x = batch()

        def run(block):
            leaf = x.clone().requires_grad_()
            with block, forward_ad.dual_level():
                y = forward_ad.make_dual(leaf, x).exp().sin()
                tangent = forward_ad.unpack_dual(y).tangent.detach()
                y.sum().backward()
            return tangent, leaf.grad

        session = self.session()
        assert_same(self, run(session), run(torch.enable_grad()))
        self.assertGreater(session.statistics()["offloaded"], 0)

    def test_ATraceOfAStepHasNothingOfTheOffloadInIt(self):
        def gradient(t):
            return torch.autograd.grad(t.exp().sin().sum(), t)[0]

        x = batch().requires_grad_()
        with self.session() as session:
            traced = make_fx(gradient)(x)
        self.assertEqual(session.statistics()["offloaded"], 0)
        other = torch.randn_like(x).requires_grad_()
        self.assertTrue(torch.equal(traced(other), gradient(other)))

    def test_ATraceOfABackwardTakesWhatWasOffloadedAsConstant(self):
        x = batch().requires_grad_()
        with self.session() as session:
            y = x.exp().sin()
        ones = torch.ones_like(y)

        def gradient(g):
            return torch.autograd.grad(y, x, g, retain_graph=True)[0]

        expected = gradient(ones).detach().clone()
        traced = make_fx(gradient)(ones)
        torch.empty_like(expected).fill_(7)  # into memory that may just have been let go of
        self.assertTrue(torch.equal(traced(ones), expected))
        self.assertGreater(session.statistics()["restored"], 0)
        with self.assertRaisesRegex(RuntimeError, "Cannot insert a Tensor"):  # as without offload
            torch.jit.trace(gradient, ones, check_trace=False)

    @needs(torch, "export")
    def test_Export(self):
        model = mlp()
        with self.session():
            exported = torch.export.export(model, (batch(),))
        self.assertTrue(torch.equal(exported.module()(batch()), model(batch())))


class OtherTensors(OnReference):
    def stays(self, kept, same):
        session = self.session()
        with session:
            loss, given = save(kept)
        loss.backward()
        self.assertTrue(same(given[0]))
        self.assertEqual([session.statistics()[name] for name in ("left_alone", "offloaded")], [1, 0])

    def test_QuantizedSparseAndMkldnnStay(self):
        plain = torch.randn(8, 8).relu()
        self.stays(torch.quantize_per_tensor(plain, 0.1, 0, torch.qint8), lambda t: t.dtype is torch.qint8)
        self.stays(plain.to_sparse(), lambda t: torch.equal(t.to_dense(), plain))
        self.stays(plain.to_sparse_csr(), lambda t: torch.equal(t.to_dense(), plain))
        if torch.backends.mkldnn.is_available():
            self.stays(plain.to_mkldnn(), lambda t: torch.equal(t.to_dense(), plain))

    @needs(torch, "jagged")
    def test_NestedTensorsStay(self):
        nested = torch.nested.nested_tensor([torch.randn(3, 4), torch.randn(2, 4)], layout=torch.jagged)
        self.stays(nested, lambda t: t.is_nested)

    def test_SubclassesStay(self):
        class Named(torch.Tensor):
            pass

        named = torch.randn(64).as_subclass(Named)
        with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            loss, given = save(named)
        loss.backward()
        kind = type(given[0])  # 1.13 forgets it wherever there are hooks
        self.stays(named, lambda t: type(t) is kind and torch.equal(t, named))

    @needs(torch, "compiler")
    def test_AStepOfWrappersHasTheSameBits(self):
        """As DTensor is one: a subclass without memory of its own, whose operations are those of a tensor inside."""
        class Wrapper(torch.Tensor):
            @staticmethod
            def __new__(cls, inner):
                return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

            def __init__(self, inner):
                self.inner = inner

            @classmethod
            def __torch_dispatch__(cls, function, types, arguments=(), keywords=None):
                plain = tree_map(lambda t: t.inner if isinstance(t, cls) else t, (arguments, keywords or {}))
                return tree_map(lambda t: cls(t) if isinstance(t, torch.Tensor) else t, function(*plain[0], **plain[1]))

        x, weight = batch(), torch.randn(32, 32)

        def run(block):
            wrapped = Wrapper(weight.clone()).requires_grad_()
            plain = weight.clone().requires_grad_()
            with block:
                loss = ((Wrapper(x) @ wrapped).exp().sin().sum() + (x @ plain).exp().sin().sum().item())
            loss.backward()
            return loss.detach().inner, wrapped.grad.inner

        session = self.session()
        assert_same(self, run(session), run(torch.enable_grad()))
        self.assertGreater(session.statistics()["left_alone"], 1)
        collect()
        self.assertEqual(self.reference.live(), 0)

    def test_FakeTensorsStay(self):
        from torch._subclasses.fake_tensor import FakeTensorMode
        with FakeTensorMode(), self.session() as session:
            x = torch.randn(64, requires_grad=True)
            x.exp().sin().sum().backward()
        self.assertEqual(x.grad.shape, x.shape)
        self.assertEqual(session.statistics()["offloaded"], 0)

    @needs(torch, "float8_e4m3fn")
    def test_SmallFloatsComeBack(self):
        for name in ("float8_e4m3fn", "float8_e5m2", "uint16", "uint32", "uint64"):
            if hasattr(torch, name):
                kept = torch.arange(64).to(getattr(torch, name))
                with self.session() as session:
                    loss, given = save(kept)
                loss.backward()
                self.assertEqual(session.statistics()["offloaded"], 1)
                self.assertTrue(torch.equal(given[0].view(torch.uint8), kept.view(torch.uint8)))


if __name__ == "__main__":
    main()
