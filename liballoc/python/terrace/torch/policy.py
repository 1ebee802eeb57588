"""What a program says about single tensors, blocks and modules: whether what autograd saves there may leave.

From the strongest: mark_keep() and mark_offload(), of a tensor's memory; keep() and the filter of offload_module(), of
what is saved while a block, or the forward pass of a module, runs (the innermost counts); the session's `only`.

A mark is about a storage, since autograd saves tensors of other objects than the program's: a view, or a detached copy of
what an operation returned. It is known by the address of its StorageImpl, which a weak reference keeps from being given
to another (records.py).
"""
from __future__ import annotations

import contextlib
import threading

import torch

from .compat import storage_of

_free_weak_reference = torch.UntypedStorage._free_weak_ref
_is_expired = torch.UntypedStorage._expired
_SWEEP = 64  # marks, at least, before dead ones are looked for


class _OfThread(threading.local):
    verdict: bool | None = None  # of the innermost block or module


class Policy:
    """One for the process, as marks are of tensors and blocks are of threads. `used`: whether anybody ever said anything, so
    that a save of a program that did not costs nothing more. Any thread."""

    __slots__ = ("used", "marks", "_changing", "_sweep_at", "_thread")

    def __init__(self):
        self.used = False
        self.marks = {}  # address of a StorageImpl: (weak reference, verdict)
        self._changing = threading.Lock()
        self._sweep_at = _SWEEP
        self._thread = _OfThread()

    @contextlib.contextmanager
    def block(self, verdict):
        """What this thread saves inside; None: as if there were no block around it."""
        self.used = True
        thread = self._thread
        before, thread.verdict = thread.verdict, verdict
        try:
            yield
        finally:
            thread.verdict = before

    def of_block(self):
        """True, it may leave; False, it stays; None, nothing was said."""
        return self._thread.verdict

    def mark(self, tensor, verdict, caller):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{caller}: {type(tensor).__name__} is no tensor; mark the tensors in it, one by one")
        try:
            storage = storage_of(tensor)
        except (RuntimeError, AttributeError):  # a kind that stays anyway: sparse, a wrapper of vmap
            return tensor
        self.used = True
        key = storage._weak_ref()
        with self._changing:
            before = self.marks.get(key)
            self.marks[key] = key, verdict
            if before is not None:
                _free_weak_reference(key)  # one is enough
            if len(self.marks) >= self._sweep_at:
                self._forget_dead()
        return tensor

    def of_storage(self, storage):
        found = self.marks.get(storage._cdata)
        return None if found is None else found[1]

    def _forget_dead(self):
        for key in [key for key in self.marks if _is_expired(key)]:
            del self.marks[key]
            _free_weak_reference(key)
        self._sweep_at = max(_SWEEP, 2 * len(self.marks))


policy = Policy()


def keep() -> contextlib.AbstractContextManager[None]:
    """What this thread's operations save inside the block stays where it is.

        with terrace.torch.keep():
            scores = softmax(logits)

    Stronger than it are mark_offload() and, of a module inside, the filter of offload_module(). Any session.
    """
    return policy.block(False)


def mark_keep(tensor: torch.Tensor) -> torch.Tensor:
    """What is saved of this tensor's memory from now on, as itself or as a view, stays. Returns the tensor.

    Of what was saved before it nothing changes. TypeError for what is no tensor. Any thread.
    """
    return policy.mark(tensor, False, "mark_keep")


def mark_offload(tensor: torch.Tensor) -> torch.Tensor:
    """What is saved of this tensor's memory from now on leaves, as itself or as a view: whatever its size, though the job
    fits, and whatever keep_last, `only`, a block or a filter say. Returns the tensor.

    What can never leave (parameters, subclasses, other devices: docs/offload.md) stays. TypeError for what is no tensor.
    Any thread.
    """
    return policy.mark(tensor, True, "mark_offload")
