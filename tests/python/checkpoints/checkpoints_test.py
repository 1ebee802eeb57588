#!/usr/bin/python3
"""Checkpoints of both kinds and what is taken of them; what a program says about tensors, blocks and modules."""
import contextlib
import copy
import functools
import inspect
import io
import pickle
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # support.py
from saving import batch, result
from support import OnReference, assert_same, gradients, main, skip
import torch
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

import terrace.torch
from terrace.torch import callbacks
from terrace.torch.compat import storage_of
from terrace.torch.fit import Fit
from terrace.torch.policy import policy
from terrace.torch.watch import Watch

KINDS = {"reentrant": True, "not reentrant": False}


class Stack(torch.nn.Module):
    def __init__(self, depth=3, reentrant=False):
        super().__init__()
        torch.manual_seed(3)
        self.blocks = torch.nn.ModuleList(
            torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.GELU(), torch.nn.Linear(32, 32)) for _ in range(depth))
        self.head = torch.nn.Linear(32, 8)
        self.checkpoint = functools.partial(checkpoint, use_reentrant=reentrant)

    def forward(self, x):
        for block in self.blocks:
            x = self.checkpoint(block, x)
        return self.head(x.tanh())


def of_hugging_face(model):
    """`model` with transformers' gradient_checkpointing_enable(), as of 5.17: its offload is save_on_cpu()."""
    def enable(gradient_checkpointing_kwargs=None):
        given = {"use_reentrant": False, **(gradient_checkpointing_kwargs or {})}
        offload, plain = given.pop("offload", False), functools.partial(checkpoint, **given)

        def to_host(*arguments):
            with torch.autograd.graph.save_on_cpu():
                return plain(*arguments)
        model.checkpoint = to_host if offload else plain

    model.gradient_checkpointing_enable = enable
    return model


def saves_inputs(reentrant):
    if not reentrant and not hasattr(torch.utils.checkpoint, "set_checkpoint_early_stop"):  # since 2.1
        skip("this PyTorch does not save the inputs of a checkpoint with use_reentrant=False, it holds them")


def forward_in(session, model, inside=False):
    """Forward inside the block, backward after it or `inside`."""
    def run(model):
        with session:
            loss = model(batch() * 2 if inside is None else batch().requires_grad_() * 2).sum()
            if inside:
                loss.backward()
        if not inside:
            loss.backward()
        return loss
    return gradients(model, run)


class Inputs(OnReference):
    def check(self, reentrant, **settings):
        saves_inputs(reentrant)
        model = Stack(reentrant=reentrant)
        expected = forward_in(contextlib.nullcontext(), model)
        session = self.session(only="checkpoints", **settings)
        session._hooks.watch = None  # below
        for inside in (False, True):
            before = session.statistics()
            assert_same(self, forward_in(session, model, inside), expected)
            after = session.statistics()
            self.assertEqual(after["offloaded"] - before["offloaded"], len(model.blocks))
            self.assertEqual(after["restored"] - before["restored"], len(model.blocks))
            self.assertGreater(after["left_alone"] - before["left_alone"], 2)  # of tanh and the head
        self.assertEqual(self.reference.live(), 0)

    def test_OfAReentrantCheckpoint(self):
        self.check(True)

    def test_OfACheckpointThatIsNotReentrant(self):
        self.check(False)

    def test_WithoutOnlyTheRestLeavesAsWell(self):
        for name, reentrant in KINDS.items():
            with self.subTest(kind=name):
                model = Stack(reentrant=reentrant)
                expected = forward_in(contextlib.nullcontext(), model)
                session = self.session()
                assert_same(self, forward_in(session, model), expected)
                self.assertGreater(session.statistics()["offloaded"], 0)

    def test_TheLastSegmentOfASequenceIsNoCheckpoint(self):
        functions = [torch.sin, torch.cos, torch.tanh, torch.exp]
        how = {"use_reentrant": True} if "use_reentrant" in inspect.signature(checkpoint_sequential).parameters else {}
        session = self.session(only="checkpoints")
        session._hooks.watch = None
        with session:
            loss = checkpoint_sequential(functions, 2, result(torch.randn(64)), **how).sum()
        self.assertEqual(session.statistics()["offloaded"], 1)
        loss.backward()

    def test_WhatIsRecomputedStaysThoughNothingWasFetchedBefore(self):
        """The checkpoint's input is a leaf, which stays: what it recomputes is the first that backward meets."""
        x = torch.randn(64, requires_grad=True)
        session = self.session()
        with session:
            out = checkpoint(lambda t: t.exp().sin().exp(), x, use_reentrant=True)
            out.sum().backward()
        self.assertEqual(session.statistics()["offloaded"], 0)

    def test_OnlyIsChecked(self):
        with self.assertRaisesRegex(ValueError, "only: 'inputs' is not known.*'checkpoints'"):
            self.session(only="inputs")


class Memory:
    """`now` is what is taken; peak() as a system has it, which never falls."""

    def __init__(self, limit=1000):
        self._limit, self._peak, self.now = limit, 0, 0

    def limit(self):
        return self._limit

    def used(self, stored_bytes):
        return self.now

    def take(self, nbytes):
        self.now += nbytes
        self._peak = max(self._peak, self.now)

    def peak(self):
        return self._peak


class Declining(unittest.TestCase):
    """Three inputs of 50, and what the segments recompute; then the optimizer."""

    def run_steps(self, recomputed, optimizer=0, states=0, steps=3, base=100, limit=10**6):
        memory = Memory(limit)
        memory.take(base)
        spilled = []
        watch = Watch(memory, Fit(limit, memory, lambda: [], lambda: 0, spilled.append))
        stays = []
        for step in range(steps):
            for _ in recomputed:
                watch.saved(50)
                stays.append(watch.keeps(lambda: None))
                memory.take(50)
            for nbytes in reversed(recomputed):
                watch.fetched(50)
                memory.take(nbytes)
                memory.take(-nbytes - 50)
            watch.end_step()
            memory.take(optimizer)
            memory.take(-optimizer)
            memory.take(states if step == 0 else 0)
        return stays[-len(recomputed):]

    def lines(self, *arguments, **keywords):
        with self.assertLogs("terrace") as said:
            stays = self.run_steps(*arguments, **keywords)
        return stays, said.output

    def test_EqualSegmentsAreWorthIt(self):
        with self.assertRaises(AssertionError), self.assertLogs("terrace"):  # nothing is said
            self.assertEqual(self.run_steps([200, 200, 200]), [False] * 3)

    def test_ALargeFirstSegmentIsNot(self):
        stays, said = self.lines([5000, 200, 200])
        self.assertEqual(stays, [True] * 3)
        self.assertEqual(len(said), 1)
        self.assertRegex(said[0], "5.0 KiB, the inputs of checkpoints were 0 bytes of it.*the peak lies elsewhere.*they stay")

    def test_ALargeLastSegmentIsWorthIt(self):
        self.assertEqual(self.run_steps([200, 200, 1000]), [False] * 3)

    def test_TheOptimizerIsWhereThePeakIs(self):
        self.assertEqual(self.lines([200, 200, 200], optimizer=2000)[0], [True] * 3)

    def test_InputsAreTooLittleOfThePeak(self):
        self.assertEqual(self.lines([200, 200, 200], base=10000)[0], [True] * 3)

    def test_StatesThatComeInTheFirstStepCount(self):
        self.assertEqual(self.run_steps([200, 200, 200], states=500), [False] * 3)

    def test_TwoStepsAreWatchedMeanwhileInputsStay(self):
        self.assertEqual(self.run_steps([200, 200, 200], steps=2), [True] * 3)

    def test_ItIsSaidOnce(self):
        self.assertEqual(len(self.lines([5000, 200, 200], steps=6)[1]), 1)

    def test_NearTheLimitInputsLeaveAtOnce(self):
        memory, spilled = Memory(1000), []
        watch = Watch(memory, Fit(1000, memory, lambda: [], lambda: 0, lambda record: spilled.append(record) or True))

        class Record:
            source, id, nbytes = object(), 0, 50

        class Packed:
            record = Record
        memory.take(950)
        watch.saved(50)
        self.assertTrue(watch.keeps(lambda: Packed))
        watch.saved(50)
        self.assertEqual(spilled, [Record])
        self.assertFalse(watch.keeps(lambda: Packed))


class Watching(OnReference):
    def test_ASessionThatDeclinesGivesTheSameBits(self):
        model = Stack(reentrant=True)
        expected = forward_in(contextlib.nullcontext(), model)
        session = self.session(only="checkpoints")  # inputs of 2 KiB in a process of some hundred MiB
        with self.assertLogs("terrace") as said:
            for _ in range(4):
                assert_same(self, forward_in(session, model), expected)
        self.assertEqual(len(said.output), 1)
        self.assertEqual(session.statistics()["offloaded"], 0)
        self.assertEqual(session.statistics()["kept"], 4 * len(model.blocks))

    def test_ALimitOfOnesOwnIsNotWatched(self):
        self.assertIsNone(self.session(only="checkpoints", limit="1G")._hooks.watch)
        self.assertIsNone(self.session()._hooks.watch)


class Saying(OnReference):
    """Of four tensors of which one is what is spoken of."""

    def offloaded(self, run, **settings):
        session = self.session(**settings)
        with session:
            loss = run()
        loss.backward()
        return session.statistics()["offloaded"]

    def test_AMarkedTensorStays(self):
        def run(mark):
            return mark(result(torch.randn(64))).exp().sin().sum()  # saves exp's result

        def with_view():
            x = terrace.torch.mark_keep(result(torch.randn(64)))
            return x[3:40].sin().sum()

        self.assertEqual(self.offloaded(lambda: run(lambda t: t)), 1)
        self.assertEqual(self.offloaded(lambda: terrace.torch.mark_keep(result(torch.randn(64)).exp()).sin().sum()), 1)
        self.assertEqual(self.offloaded(lambda: result(torch.randn(64))[3:40].sin().sum()), 1)
        self.assertEqual(self.offloaded(with_view), 0)

    def test_AMarkedTensorLeavesWhateverElseIsSaid(self):
        marked = terrace.torch.mark_offload
        for settings in ({"only": "checkpoints", "limit": "1G"}, {"min_bytes": "1M"}, {"limit": "4G"}, {"only": "checkpoints"}):
            with self.subTest(settings=settings):
                self.assertEqual(self.offloaded(lambda: result(torch.randn(64)).sin().sum(), **settings), 0)
                self.assertEqual(self.offloaded(lambda: marked(result(torch.randn(64))).sin().sum(), **settings), 1)

        def in_a_block():
            with terrace.torch.keep():
                return marked(result(torch.randn(64))).sin().sum()
        self.assertEqual(self.offloaded(in_a_block), 1)

    def test_AParameterStaysThoughMarked(self):
        weight = terrace.torch.mark_offload(torch.randn(64, requires_grad=True))
        self.assertEqual(self.offloaded(lambda: weight.sin().sum()), 0)

    def test_TheLastMarkCounts(self):
        x = result(torch.randn(64))
        self.assertIs(terrace.torch.mark_keep(terrace.torch.mark_offload(x)), x)
        self.assertEqual(self.offloaded(lambda: x.sin().sum()), 0)

    def test_MarksDieWithTheirMemory(self):
        kept = [terrace.torch.mark_keep(torch.randn(4)) for _ in range(10)]
        for _ in range(1000):
            terrace.torch.mark_keep(torch.randn(4))
        self.assertLess(len(policy.marks), 200)
        self.assertEqual(sum(policy.of_storage(storage(t)) is False for t in kept), 10)

    def test_WhatIsNoTensorIsRefused(self):
        with self.assertRaisesRegex(TypeError, "mark_keep: tuple is no tensor.*one by one"):
            terrace.torch.mark_keep((torch.randn(4),))
        sparse = torch.eye(4).to_sparse()
        self.assertIs(terrace.torch.mark_offload(sparse), sparse)

    def test_ABlockKeeps(self):
        def run(block):
            x = result(torch.randn(64)).sin()
            with block:
                with contextlib.suppress(ZeroDivisionError), terrace.torch.keep():
                    1 / 0
                return x.exp().sum()  # saves exp's result

        self.assertEqual(self.offloaded(lambda: run(contextlib.nullcontext())), 2)
        self.assertEqual(self.offloaded(lambda: run(terrace.torch.keep())), 1)
        self.assertIsNone(policy.of_block())


def storage(tensor):
    return storage_of(tensor)


class Modules(OnReference):
    def setUp(self):
        super().setUp()
        self.model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.GELU(),
                                         torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.Tanh()))
        self.expected = self.step(self.model)
        self.settings = {"budget": "64M", "device": "cpu", "min_bytes": 1, "limit": None, "keep_last": 0}

    def step(self, model):
        def run(model):
            loss = model(batch() * 1).sum()
            loss.backward()
            return loss
        return gradients(model, run)

    def offloaded(self, **keywords):
        handle = terrace.torch.offload_module(self.model, **{**self.settings, **keywords})
        try:
            assert_same(self, self.step(self.model), self.expected)
            return handle.session.statistics()["offloaded"]
        finally:
            handle.remove()

    def test_AFilterSaysWhichModulesKeep(self):
        names = []

        def no_linear(name, module):
            names.append(name)
            return False if isinstance(module, torch.nn.Linear) else None

        every = self.offloaded()
        self.assertEqual(every, 4)  # input, gelu's input, its output, tanh's output
        self.assertEqual(self.offloaded(filter=no_linear), 2)
        self.assertEqual(names, ["", "0", "1", "2", "2.0", "2.1"])
        self.assertEqual(self.offloaded(), every)  # the filter has gone with its handle
        self.assertEqual([type(m) for m in (self.model, self.model[0])], [torch.nn.Sequential, torch.nn.Linear])

    def test_TheInnermostModuleCounts(self):
        self.assertEqual(self.offloaded(filter=lambda name, module: {"2": False, "2.1": True}.get(name)), 3)
        self.assertEqual(self.offloaded(filter=lambda name, module: {"": False, "2.1": True}.get(name)), 1)

    def test_AModuleMaySaveMoreThanCheckpoints(self):
        self.assertEqual(self.offloaded(only="checkpoints", limit="1M"), 0)

        def only_tanh(name, module):
            return True if isinstance(module, torch.nn.Tanh) else None
        handle = terrace.torch.offload_module(self.model, filter=only_tanh, **{**self.settings, "only": "checkpoints"})
        handle.session._hooks.watch = None
        self.step(self.model)
        self.assertEqual(handle.session.statistics()["offloaded"], 1)
        handle.remove()

    def test_CopiesAreNotUnderTheFilter(self):
        handle = terrace.torch.offload_module(self.model, filter=lambda name, module: False, **self.settings)
        text = io.BytesIO()
        torch.save(self.model[0], text)
        for copied in (copy.deepcopy(self.model), pickle.loads(pickle.dumps(self.model))):
            self.assertEqual([type(m).__call__ is torch.nn.Module.__call__ for m in copied.modules()], [True] * 6)
            self.assertFalse(any("terrace" in name for m in copied.modules() for name in vars(m)))
            assert_same(self, self.step(copied), self.expected)
        handle.remove()

    def test_HandlesAreRemovedInAnyOrder(self):
        part = self.model[2]
        outer = terrace.torch.offload_module(self.model, filter=lambda name, module: False if name == "2" else None, **self.settings)
        inner = terrace.torch.offload_module(part, **self.settings)
        for handle in (outer, inner):
            assert_same(self, self.step(self.model), self.expected)
            handle.remove()
            handle.remove()
        stored = self.reference.counts["stored"]
        assert_same(self, self.step(self.model), self.expected)
        self.assertEqual(self.reference.counts["stored"], stored)
        self.assertEqual(self.offloaded(), 4)

    def test_AnExceptionInAModuleLeavesNothingBehind(self):
        class Failing(torch.nn.Module):
            def forward(self, x):
                raise ZeroDivisionError

        handle = terrace.torch.offload_module(torch.nn.Sequential(Failing()), filter=lambda name, module: False, **self.settings)
        with self.assertRaises(ZeroDivisionError):
            handle._changed[-1][0](batch())
        self.assertIsNone(policy.of_block())

    def test_AFiltersAnswerIsChecked(self):
        for answer in (1, "keep", 0.0):
            with self.assertRaisesRegex(TypeError, r"filter: .* for the model itself \(Sequential\).*True, False, or None"):
                self.offloaded(filter=lambda name, module, a=answer: a)
        self.assertIs(type(self.model), torch.nn.Sequential)
        handle = terrace.torch.offload_module(self.model[2], filter=lambda name, module: False, **self.settings)
        with self.assertRaisesRegex(ValueError, "filter: 2.*under another handle's filter already"):
            self.offloaded(filter=lambda name, module: False)
        handle.remove()


class HuggingFace(OnReference):
    SETTINGS = {"budget": "64M", "device": "cpu", "min_bytes": 1, "keep_last": 0, "limit": "256M"}

    def enabled(self, given, **settings):
        model = of_hugging_face(Stack())
        model.gradient_checkpointing_enable(given)  # as a Trainer has done by then
        expected = forward_in(contextlib.nullcontext(), model)
        return model, expected

    def check(self, handle, model, expected):
        handle.session._hooks.fit = None  # a limit of 256M, which is less than the process takes, means this, too
        assert_same(self, forward_in(contextlib.nullcontext(), model), expected)
        counts = handle.session.statistics()
        self.assertEqual([counts["offloaded"], counts["restored"]], [3, 3])

    def test_ItsDictionaryIsTaken(self):
        for reentrant in (True, False):
            with self.subTest(reentrant=reentrant):
                saves_inputs(reentrant)
                model, expected = self.enabled({"use_reentrant": reentrant, "offload": True})
                handle = terrace.torch.gradient_checkpointing_enable(
                    model, gradient_checkpointing_kwargs={"use_reentrant": reentrant, "offload": True}, **self.SETTINGS)
                self.check(handle, model, expected)
                handle.remove()

    def test_WithoutOffloadItIsTransformersOwn(self):
        model, _ = self.enabled(None)
        for given in (None, {"use_reentrant": True}, {"offload": False}):
            self.assertIsNone(terrace.torch.gradient_checkpointing_enable(model, given))
        with self.assertRaisesRegex(ValueError, "no \"offload\": True, which budget would be for"):
            terrace.torch.gradient_checkpointing_enable(model, {"use_reentrant": True}, budget="64M")

    def test_AModelOfAnotherKindIsToldWhatToDo(self):
        with self.assertRaisesRegex(ValueError, "Linear has no gradient_checkpointing_enable.*only=\"checkpoints\""):
            terrace.torch.gradient_checkpointing_enable(torch.nn.Linear(2, 2), {"offload": True})

    def test_TheTrainersCallbackTakesIt(self):
        given = {"use_reentrant": True, "offload": True}
        model, expected = self.enabled(given)

        class Arguments:
            gradient_checkpointing, gradient_checkpointing_kwargs = True, given

        callback = callbacks.TrainerCallback(**self.SETTINGS)
        callback.on_train_begin(Arguments, None, None, model=model)
        self.check(callback._handle, model, expected)
        callback.on_train_end(Arguments, None, None)


if __name__ == "__main__":
    main()
