#!/usr/bin/python3
"""Tensors that share memory: what counts their changes together, and what does not. Never another's bytes.

PyTorch compares a version's number, and several counters of one storage may stand at the same number: what .data,
set_(), detach() and flat buffers make. The random programs are compared with plain PyTorch, bit for bit.
"""
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # support.py
from saving import Capture, result
from support import OnReference, assert_same, collect, main
import torch


class Weighed(torch.autograd.Function):
    """Its gradient is what was saved, and it says so to the test."""

    @staticmethod
    def forward(context, weight, tensor):
        context.save_for_backward(tensor)
        return weight.sum()

    @staticmethod
    def backward(context, gradient):
        tensor, = context.saved_tensors
        return tensor.reshape(-1).double(), None


def saved(tensor):
    """A graph that has saved it, and the leaf whose gradient is what comes back."""
    weight = torch.ones(tensor.numel(), dtype=torch.float64, requires_grad=True)  # float64 holds every int32
    return Weighed.apply(weight, tensor), weight


def gradient(graph):
    out, weight = graph
    return torch.autograd.grad(out, weight)[0]


class Counters(OnReference):
    def stores(self):
        return [call[1] for call in self.reference.calls if call[0] == "store"]

    def check(self, *saves):
        """Each of `saves` makes the next tensor to save, and what it is made of stays for all of them."""
        expected, graphs = [], []
        with self.session():
            for save in saves:
                tensor = save()
                expected.append(tensor.detach().reshape(-1).double())
                graphs.append(saved(tensor))
        assert_same(self, [gradient(graph) for graph in graphs], expected)
        del graphs
        collect()
        self.assertEqual(self.reference.live(), 0)

    def test_PartsOfABufferWithCountersOfTheirOwn(self):
        big = torch.zeros(300)
        for first, second in ((big.data[:200], big.data[200:]), (big[:200].detach(), big[200:].detach()),
                              (torch.empty(0).set_(big.storage(), 0, (200,)),
                               torch.empty(0).set_(big.storage(), 200, (100,)))):
            self.check(lambda: first.fill_(2), lambda: second.fill_(3))

    def test_TheSameRangeWithCountersOfTheirOwn(self):
        tensor = torch.zeros(64)
        tensor.add_(1)
        other = tensor.data
        self.check(lambda: tensor, lambda: other.fill_(2))
        self.check(lambda: tensor.data, lambda: tensor.data, lambda: (other.fill_(3), tensor.data)[1])

    def test_APartOfWhatWasSavedByAnotherCounter(self):
        tensor = torch.zeros(64)
        part = tensor.data[16:32]
        self.check(lambda: tensor.add_(1), lambda: part.fill_(5))

    def test_ARootOfWhichAnotherPartWasSaved(self):
        big = torch.zeros(300)
        other = big.data[200:]
        self.check(lambda: big[:200], lambda: (other.fill_(3), big[200:])[1])
        self.check(lambda: big[:200], lambda: (other.fill_(4), big)[1])

    def test_AViewBeyondItsBase(self):
        big = torch.zeros(300)
        first, second = big[:200].detach(), big[200:].detach()
        self.check(lambda: first, lambda: (second.fill_(3), first.as_strided((100,), (1,), 200))[1])
        self.check(lambda: first.as_strided((300,), (1,), 0), lambda: first[:60])

    def test_AViewWhoseBaseWentElsewhere(self):
        base = torch.zeros(64)
        view = base[8:40]
        base.data = torch.ones(8)
        self.check(lambda: view, lambda: base)

    def test_ABufferThatShrank(self):
        base = torch.arange(4096.0)
        view = base[:3000]
        base.storage().resize_(3000)
        self.check(lambda: view)

    def test_ParametersInAFlatBuffer(self):
        flat = torch.zeros(96)
        parameters = [torch.nn.Parameter(part.view(4, 8)) for part in flat.chunk(3)]
        with self.session() as session:
            graphs = [saved(parameter) for parameter in parameters]
        for graph in graphs:
            gradient(graph)
        self.assertEqual(session.statistics()["offloaded"], 0)
        frozen = [part.detach().view(4, 8) for part in flat.chunk(3)]
        self.check(*(lambda one=one, value=value: one.fill_(value) for value, one in enumerate(frozen)))

    def test_TheTensorAndItsViewsAreOne(self):
        for first in (lambda x: x, lambda x: x.t(), lambda x: x[:, 20:80], lambda x: x.chunk(3, 1)[1]):
            self.reference.calls.clear()
            x = result(torch.randn(16, 96))
            with torch.no_grad():
                hidden = x.t()[3:]
            tensors = (first(x), x.view(96, 16)[5:], x, x.t(), x[2:, 3:], x.chunk(3, 1)[1], hidden,
                       x.unsqueeze(0).expand(3, 16, 96), x[3:5].t()[7])
            hooks = self.session()._hooks
            packed = [hooks.pack(tensor) for tensor in tensors]
            self.assertEqual(self.stores(), [16 * 96 * 4])
            for one, tensor in zip(packed, tensors):
                self.assertTrue(torch.equal(hooks.unpack(one), tensor))

    def test_DetachedTensorsAreStoredApart(self):
        x = result(torch.randn(64))
        session = self.session()
        with session:
            out = Capture.apply(x, x.detach(), x.detach())
        self.assertEqual(self.stores(), [256] * 3)
        out.backward()
        for got in Capture.got:
            self.assertTrue(torch.equal(got, x))

    def test_ATensorThatTakesTheMemoryOfOneThatDiedIsAnother(self):
        with self.session():
            x = torch.zeros(64)
            storage, first = x.storage(), saved(x)
            del x
            for value in range(1, 8):
                y = torch.empty(0).set_(storage)  # each at version 1, perhaps where the one before it was
                y.data.fill_(value)
                second = saved(y)
                self.assertEqual(gradient(second)[0], value)
                del y, second
        self.assertIsNotNone(first)


class Program:
    """One random program: made of its seed alone, so that it runs twice alike."""

    ELEMENTS = 1024

    def __init__(self, seed, hooks):
        self.random = random.Random(seed)
        self.hooks = hooks
        self.tensors = []   # (tensor, number of its buffer, its counter's)
        self.claims = []    # of what is saved: (mask of a buffer's elements, number of the buffer, counter)
        self.graphs = []
        self.counters = 0

    def run(self):
        """What each save's backward gave, or that it raised; and what was true when it was saved."""
        for _ in range(3):
            self.add(torch.arange(float(self.ELEMENTS)), len(self.tensors), None)
        with self.hooks:
            for _ in range(40):
                self.random.choice((self.alias, self.alias, self.change, self.change, self.save, self.save,
                                    self.look))()
        self.random.shuffle(self.graphs)
        return [self.outcome(graph) for graph, _ in self.graphs], [truth for _, truth in self.graphs]

    @staticmethod
    def outcome(graph):
        try:
            return gradient(graph)
        except RuntimeError as error:
            if "modified by an inplace operation" not in str(error):
                raise
            return None

    def add(self, tensor, buffer, counter):
        if counter is None:
            self.counters += 1
            counter = self.counters
        self.tensors.append((tensor, buffer, counter))

    def alias(self):
        tensor, buffer, counter = self.random.choice(self.tensors)
        kind = self.random.choice(("slice", "slice", "chunk", "strided", "beyond", "half", "data", "data", "detach",
                                   "set"))
        low, high = sorted(self.random.choices(range(tensor.shape[0] + 1), k=2))
        if kind == "slice":
            self.add(tensor[low:high + 1], buffer, counter)
        elif kind == "chunk":
            for part in tensor.chunk(2):
                self.add(part, buffer, counter)
        elif kind == "strided":
            self.add(tensor[::self.random.choice((2, 3))], buffer, counter)
        elif kind == "beyond":
            self.add(tensor.as_strided((high - low,), (1,), low), buffer, counter)
        elif kind == "half":
            self.add(tensor.view(torch.int32), buffer, counter)
        elif kind == "data":
            self.add(tensor.data[low:high + 1], buffer, None)
        elif kind == "detach":
            self.add(tensor.detach(), buffer, counter)
        else:
            other = torch.empty(0, dtype=tensor.dtype)
            self.add(other.set_(tensor.data.storage(), tensor.storage_offset(), tensor.size(), tensor.stride()), buffer,
                     None)

    def mask(self, tensor):
        mask = torch.zeros(self.ELEMENTS, dtype=torch.bool)
        mask.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset()).fill_(True)
        return mask

    def change(self):
        """What is saved may be changed only so that PyTorch sees it: it would give the later bytes without a word.
        So may what lies in the gaps of something saved (docs/offload.md)."""
        tensor, buffer, counter = self.random.choice(self.tensors)
        mask = self.mask(tensor)
        if all(other != buffer or by == counter or not bool((mask & claim).any())
               for claim, other, by in self.claims):
            tensor.add_(self.random.choice((1, 2, 3)))

    def save(self):
        tensor, buffer, counter = self.random.choice(self.tensors)
        if tensor.numel():
            mask = self.mask(tensor)
            gaps = int(mask.nonzero()[-1] - mask.nonzero()[0]) >= int(mask.sum())
            self.claims.append((torch.ones_like(mask) if gaps else mask, buffer, counter))
            self.graphs.append((saved(tensor), tensor.reshape(-1).double()))

    def look(self):
        """Something has left meanwhile, or not."""
        self.hooks.between(self.random.random() < 0.5)


class Plain:
    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    def between(self, leaves):
        pass


class Random(OnReference):
    def test_ProgramsOfAliasesGiveWhatPlainPyTorchGives(self):
        raised = equal = shared = 0
        for seed in range(400):
            self.reference.hold = seed % 2 == 1
            session = self.session()
            session.between = lambda leaves: self.reference.let_leave() if leaves else None
            with self.subTest(seed=seed):
                plain, truth = Program(seed, Plain()).run()
                ours, _ = Program(seed, session).run()
                self.compare(plain, ours, truth)
            raised += sum(one is None for one in plain)
            equal += sum(one is not None for one in plain)
            shared += session.statistics()["shared"]
            session.close()
        self.assertGreater(min(raised, equal, shared), 100)

    def compare(self, plain, ours, truth):
        """Where PyTorch raises, we may have what was saved: it had left."""
        self.assertEqual(len(plain), len(ours))
        for theirs, mine, was in zip(plain, ours, truth):
            if theirs is not None:
                self.assertTrue(torch.equal(theirs, was))
                self.assertIsNotNone(mine)
            if mine is not None:
                self.assertTrue(torch.equal(mine, was))


if __name__ == "__main__":
    main()
