"""What the tests of the Python package share: where the package is, engines to test on, and SKIP.

    TERRACE_SOURCE       the repository; the package is taken from it
    TERRACE_GPU_LIBRARY  libterrace_gpu.so as it was built
"""
import contextlib
import functools
import gc
import os
import sys
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("TERRACE_SOURCE", Path(__file__).resolve().parents[2]))
sys.path[:0] = [str(SOURCE / "liballoc/python"), str(Path(__file__).parent)]
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # other tests may use the processors, too

try:
    import torch
except ImportError as error:
    print(f"SKIP: {sys.executable} has no PyTorch ({error})")
    sys.exit(77)

import terrace.torch  # noqa: E402
from terrace import library  # noqa: E402

KIB, MIB = 2**10, 2**20


def engine_or_skip():
    """Without the engine the tests of whole trainings have nothing to run on."""
    try:
        library.load()
    except library.LibraryError as error:
        print(f"SKIP: {error.strerror}")
        sys.exit(77)


def needs_drive():
    """An engine that was built without its NVMe tier says no way to a drive in its path."""
    session = terrace.torch.offload("16M", ("dram", "nvme"), "/var/tmp", device="cpu", nvme_bytes="16M", limit=None)
    path = session.statistics()["path"]
    session.close()
    if " and " not in path:
        skip(f"this engine has no way to a drive, only {path}")


def skip(reason):
    print(f"SKIP: {reason}")
    raise unittest.SkipTest(reason)


def needs(owner, name):
    """Decorates a test of what not every PyTorch has."""
    def decorate(test):
        @functools.wraps(test)
        def run(self):
            if not hasattr(owner, name):
                skip(f"this PyTorch has no {owner.__name__}.{name}")
            test(self)
        return run
    return decorate


class OnReference(unittest.TestCase):
    """Tests on an engine that does what the test says."""

    def setUp(self):
        from reference_engine import ReferenceLibrary
        self.reference = ReferenceLibrary()
        library._library = self.reference
        self.addCleanup(setattr, library, "_library", None)
        torch.manual_seed(1)

    def session(self, **settings):
        return terrace.torch.offload(**{"budget": "64M", "device": "cpu", "min_bytes": 1, "limit": None,
                                        "keep_last": 0, **settings})


    @contextlib.contextmanager
    def refused(self, text):
        """An OffloadError; PyTorch 1.13 makes a RuntimeError with its name of what a C++ node meets."""
        with self.assertRaisesRegex(RuntimeError, text) as raised:
            yield
        error = raised.exception
        self.assertTrue(isinstance(error, terrace.torch.OffloadError) or "OffloadError" in str(error))

    @contextlib.contextmanager
    def nothing_unraisable(self):
        """No exception leaves a __del__ or a callback, where the interpreter would only print it."""
        raised, before = [], sys.unraisablehook
        sys.unraisablehook = lambda what: raised.append(what.exc_value)
        try:
            yield
        finally:
            sys.unraisablehook = before
        self.assertEqual(raised, [])


def gradients(model, run):
    """The loss and all gradients, of fresh ones."""
    model.zero_grad(set_to_none=True)
    loss = run(model)
    return [loss.detach().clone(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]


def assert_same(test, ours, theirs):
    test.assertEqual(len(ours), len(theirs))
    for index, (one, other) in enumerate(zip(ours, theirs)):
        test.assertTrue(torch.equal(one, other), f"tensor {index} differs")


def collect():
    gc.collect()


def main():
    unittest.main(verbosity=1)
