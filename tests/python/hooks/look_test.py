#!/usr/bin/python3
"""What look() says of a tensor: the same in C and in Python, and what it has to be."""
import contextlib
import ctypes
import os
import select
import struct
import sys
import threading
import unittest
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # support.py
from support import main, skip
import torch

from terrace import library
from terrace.torch.compat import storage_of
from terrace.torch.look import KINDS, in_python

CPU = torch.device("cpu")
KIB = 2**10


def of_every_kind():
    base = torch.randn(64, 64)
    weight = torch.randn(64, 64, requires_grad=True)
    active = (weight * 2).detach().requires_grad_() * 1
    yield from (base, base.t(), base[3:40], base[:, 5:9], base[:, 0], base[::2, ::3], base[0], base.view(-1), base.detach())
    yield from (weight, weight[0], weight.view(-1), active, active[1:], active.t(), active.unsqueeze(0).expand(4, 64, 64))
    yield from (torch.tensor(1.0), torch.empty(0), torch.empty(4, 0, 3), torch.zeros(1, 1, 1), base.reshape(64, 1, 64))
    yield from (base.as_strided((4, 4), (1, 1)), base.as_strided((2, 1, 8), (64, 7, 1), 12), base[:1].as_strided((1, 64), (5, 1)))
    for dtype in (torch.bool, torch.int8, torch.int64, torch.float16, torch.bfloat16, torch.float64):
        yield torch.zeros(100, dtype=dtype)
    waves = torch.randn(32, dtype=torch.complex64)
    yield from (waves, waves.conj(), waves.imag, waves.conj().imag, waves.real[::2])
    yield from (base.to_sparse(), torch.empty(8, device="meta"), torch.quantize_per_tensor(base, 0.1, 0, torch.qint8))
    with contextlib.suppress(RuntimeError, AttributeError), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that nested tensors are new
        yield torch.nested.nested_tensor([base, base[:2]])


def without_wrappers(seen):
    """A storage is another object each time it is asked for."""
    return seen and (seen[0], seen[1]._cdata, *seen[2:])


class Looks(unittest.TestCase):
    def looks(self, least_bytes):
        native = library.native()
        if native is None:
            skip("this build has no terrace_saves (no headers of Python), or this Python cannot load it")
        rules = (CPU, torch.strided, KINDS, storage_of, least_bytes)
        return in_python(rules), native.look_for(rules)

    def test_BothSayTheSame(self):
        taken = 0
        for least_bytes in (1, KIB, 16 * KIB, 17 * KIB):
            ours, native = self.looks(least_bytes)
            for number, tensor in enumerate(of_every_kind()):
                with self.subTest(least_bytes=least_bytes, number=number, dtype=tensor.dtype):
                    one, other = without_wrappers(ours(tensor)), without_wrappers(native(tensor))
                    self.assertEqual(one is None, other is None)
                    if one is not None:
                        taken += 1
                        self.assertIs(one[0], other[0])
                        self.assertEqual(one[1:], other[1:])
        self.assertGreater(taken, 60)

    def test_AWrapperOfVmapIsLeftAloneByBoth(self):
        if not hasattr(torch, "func"):
            skip("this PyTorch has no torch.func")
        ours, native = self.looks(1)
        answers = []

        def record(tensor):
            answers.append((ours(tensor), native(tensor)))
            return tensor * 2

        torch.func.vmap(record)(torch.randn(4, 4))
        self.assertEqual(answers, [(None, None)])

    def test_ASmallTensorsStorageIsNotAskedFor(self):
        asked = []

        def storage_that_tells(tensor):
            asked.append(tensor)
            return storage_of(tensor)

        rules = (CPU, torch.strided, KINDS, storage_that_tells, KIB)
        native = library.native()
        for look in [in_python(rules)] + ([native.look_for(rules)] if native else []):
            self.assertIsNone(look(torch.zeros(255)))
            self.assertEqual(asked, [])
            large = torch.zeros(257)
            self.assertIsNotNone(look(large))
            self.assertIsNotNone(look(large[:2]))  # it may be stored already, with the tensor that it is a view of
            self.assertEqual(len(asked), 2)
            asked.clear()

    def test_AnErrorOfATensorsOwnIsNotHidden(self):
        _, native = self.looks(1)
        with self.assertRaises(AttributeError):
            native(object())


class Calls(unittest.TestCase):
    """The engine's functions, called without ctypes."""

    def setUp(self):
        self.native = library.native()
        if self.native is None:
            skip("this build has no terrace_saves (no headers of Python), or this Python cannot load it")

    def test_ArgumentsAndResultsAreCs(self):
        seen = []
        of_four = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_uint64] * 4)

        @of_four
        def function(*arguments):
            seen.append(arguments)
            return -28

        call = self.native.function(ctypes.cast(function, ctypes.c_void_p).value)
        self.assertEqual(call(1, None, 2**64 - 1, 2**40), -28)
        self.assertEqual(seen, [(1, 0, 2**64 - 1, 2**40)])
        for wrong in ((), (1,) * 5):
            with self.assertRaises(TypeError):
                call(*wrong)
        with self.assertRaises(TypeError):
            call("1")

    def test_OtherThreadsRunMeanwhile(self):
        """A call of poll(2) that ends early because this thread writes to the pipe."""
        reads, writes = os.pipe()
        self.addCleanup(os.close, reads)
        self.addCleanup(os.close, writes)
        wanted = ctypes.create_string_buffer(struct.pack("ihh", reads, select.POLLIN, 0))
        call = self.native.function(ctypes.cast(ctypes.CDLL(None).poll, ctypes.c_void_p).value)
        answers = []
        thread = threading.Thread(target=lambda: answers.append(call(ctypes.addressof(wanted), 1, 10_000)))
        thread.start()
        os.write(writes, b".")
        thread.join()
        self.assertEqual(answers, [1])


if __name__ == "__main__":
    main()
