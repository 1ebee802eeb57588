#!/usr/bin/python3
"""The hooks from step to step, and beside what else programs do: checkpoints, threads, copies, forks."""
import copy
import io
import os
import pickle
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # support.py
from saving import backward, batch, mlp, result
from support import OnReference, assert_same, collect, gradients, main
import torch
from torch.utils.checkpoint import checkpoint

import terrace.torch
from terrace.torch import steps


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

    def test_AFetchOfAStepThatAnotherThreadHasEndedEndsNone(self):
        learned = steps.Steps(None)
        learned.next(1024)
        learned.fetched(0, False)
        self.assertTrue(learned.end())
        learned.fetched(0, False)
        self.assertFalse(learned.end())
        learned.next(1024)
        self.assertFalse(learned.end(), "nothing of this step was fetched")

    def test_WhatIsStillInUseIsNotStoredAgain(self):
        session, x = self.session(keep_last=None), result(torch.randn(64))
        for _ in range(2):
            y = None
            with session:
                y = x.exp()
            y.sum().backward(retain_graph=True)
        self.assertGreaterEqual(session.statistics()["kept"], 1)

    def chain(self, session, layers=40):
        """Saves a tensor of 4 KiB for each layer; what comes of it."""
        with session:
            x = result(torch.randn(1024))
            for _ in range(layers):
                x = x.sin()
            return x.sum()

    def leaves(self):
        return [call[1] for call in self.reference.calls if call[0] == "leave"]

    def test_AFullStashLeavesOldestFirstInTheCallersStream(self):
        self.reference.hold = True
        session = self.session(limit=None)
        session._hooks.stream = lambda: 11
        loss = self.chain(session)
        stash = session._hooks.outbound
        self.assertEqual(stash.stashed_bytes(), 2 * 4096)  # of a 16th, 2.5 of them, what fits
        self.assertEqual(self.leaves(), list(range(1, 39)))
        self.assertTrue(all(call[2] == 11 for call in self.reference.calls if call[0] == "leave"))
        self.assertEqual([record.id for record in session._hooks.records() if record.source is not None], [39, 40])
        loss.backward()
        counts = session.statistics()
        self.assertEqual((counts["handed_back"], counts["restored"], counts["left_in_order"]), (2, 38, 38))
        self.assertEqual(stash.stashed_bytes(), 0)
        self.assertEqual(self.reference.live(), 0)

    def test_WhatCannotBeQueuedStaysUntilItCan(self):
        self.reference.hold, self.reference.orders = True, False
        session = self.session()
        loss = self.chain(session, 20)
        stash = session._hooks.outbound
        self.assertEqual(stash.stashed_bytes(), 20 * 4096)
        self.assertLessEqual(len(self.leaves()), 4 * 20)
        self.reference.orders = True
        with session:
            result(torch.randn(1024)).exp()
        self.assertLessEqual(stash.stashed_bytes(), 2 * 4096)
        loss.backward()
        self.assertEqual(session.statistics()["handed_back"], 1)

    def test_AnotherThreadsStashIsLeftAlone(self):
        self.reference.hold = True
        session, losses = self.session(), []
        thread = threading.Thread(target=lambda: losses.append(self.chain(session, 2)))
        thread.start()
        thread.join()
        self.chain(session, 10)
        self.assertNotIn(1, self.leaves())
        self.assertNotIn(2, self.leaves())
        losses.pop().backward()

    def test_AChangeBeforeASourceLeavesInOrderIsSaid(self):
        self.reference.hold = True
        session = self.session()
        with session:
            x = result(torch.randn(1024))
            y = x.sin()
            x.add_(1)
            z = self.chain(session, 4)
        self.assertIn(1, self.leaves())
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            y.sum().backward()
        z.backward()

    def test_WithoutANumberToKeepTheStashIsKept(self):
        self.reference.hold = True
        session = self.session(keep_last=None)
        for handed_back, kept in ((2, 0), (0, 2), (0, 2), (0, 2)):
            before = session.statistics()
            self.chain(session).backward()
            now = session.statistics()
            self.assertEqual(now["handed_back"] - before["handed_back"], handed_back)
            self.assertEqual(now["kept"] - before["kept"], kept)
        self.assertEqual(self.reference.live(), 0)

    def test_NothingIsKeptByTheHostsClock(self):
        """Whether copies are quick or the host far ahead, the same stay."""
        for hold in (True, False):
            self.reference.hold = hold
            session = self.session(keep_last=None)
            for _ in range(3):
                self.chain(session).backward()
            self.assertEqual(session.statistics()["kept"], 4)

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
        for bound, prefetched in ((0, 0), ("256K", 2)):
            session = self.session(prefetch=bound)
            with session:
                x = result(torch.randn(32768))  # 128 KiB: not so small that the engine copies it at once
                for _ in range(6):
                    x = x.exp()
            held = []
            x.grad_fn.register_hook(lambda *_: held.append(session.statistics()["prefetched"]))
            x.sum().backward()
            self.assertLessEqual(held[0], prefetched)
            self.assertEqual(session.statistics()["prefetched"] > 0, bound != 0)

    def test_WithoutABoundOneLargeTensorComesAhead(self):
        session, ahead = self.session(), []
        with session:
            x = result(torch.randn(2**20))  # 4 MiB each, 32 in all: half a stash is one of them
            for _ in range(32):
                x = x.sin()
                x.register_hook(lambda _: ahead.append(sum(record.buffer is not None
                                                           for record in session._hooks.records())))
            loss = x.sum()
        del x
        loss.backward()
        self.assertGreater(session.statistics()["prefetched"], 0)
        self.assertLessEqual(max(ahead), 2)  # and the one in use

    def test_WhatWasBroughtBackAheadIsReleasedInItsBuffersStream(self):
        session, stream = self.session(prefetch="256K"), [11]
        session._hooks.stream = lambda: stream[0]
        with session:
            x = result(torch.randn(32768))
            for _ in range(4):
                x = x.exp()
        loss = x.sum()
        x.grad_fn.register_hook(lambda *_: 1 / 0)  # the others stay as they are
        with self.assertRaises(ZeroDivisionError):
            loss.backward()
        ahead = {record.id for record in session._hooks.records() if record.buffer is not None}
        self.assertEqual(len(ahead), 2)
        stream[0] = 22
        self.reference.calls.clear()
        del x, loss
        collect()
        released = {number: where for _, number, where in self.reference.calls}
        self.assertEqual(len(released), 4)
        for number, where in released.items():
            self.assertEqual(where, 11 if number in ahead else 22)


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
        expected = gradients(model, lambda m: backward(m(batch()).sum()))
        handle = terrace.torch.offload_module(model, session=self.session())
        assert_same(self, gradients(model, lambda m: backward(m(batch()).sum())), expected)
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
        for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), torch.load(stream, weights_only=False)):
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
        expected = gradients(mlp(), lambda m: backward(m(x).sum()))

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
