"""What planned steps take, said beside what was predicted.

The second step's memory and the times of the next three are looked at. On the CPU memory is what PyTorch's allocator gives out, by its
profiler: from the step's beginning to the next one's, so that step is not timed. Gradients that are there before the step count.
"""
from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

import torch

from ... import sizes
from .. import compat
from ..errors import say
from ..module import PLAN, ModuleHandle
from .observe import LEAST_BYTES, _walk
from .segments import tensors_in

SETTLE, TIMED = 2, 3  # steps


@dataclass(frozen=True)
class Measured:
    peak_bytes: int | None  # None: somebody else's profiler was there
    seconds: float


class Watched:
    def __init__(self, model, device, base_bytes, predicted):
        self._device, self._base_bytes, self._predicted = device, base_bytes, predicted
        self._model, self._calls, self._before_bytes = model, 0, 0
        self._peak = self._profiler = None
        self._times = []
        self.measured = None
        self._handle = ModuleHandle(None)
        self._handle.give(model, PLAN, self._call)

    def remove(self):
        self._end_memory()
        self._handle.remove()

    def _call(self, function, arguments, keywords):
        if self.measured is not None or not torch.is_grad_enabled():
            return function(*arguments, **keywords)
        self._calls += 1
        if self._calls == SETTLE:
            self._begin_memory()
        elif self._calls == SETTLE + 1:
            self._end_memory()
        begin = time.perf_counter()
        result = function(*arguments, **keywords)
        if self._calls > SETTLE:
            self._at_backward_end(result, begin)
        return result

    def _at_backward_end(self, result, begin):
        tensor = next((each for each in tensors_in(result) if each.requires_grad), None)
        if tensor is not None:
            tensor.register_hook(lambda gradient: compat.at_backward_end(lambda: self._ended(begin)))

    def _ended(self, begin):
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        self._times.append(time.perf_counter() - begin)
        if len(self._times) == TIMED:
            self.measured = Measured(self._peak, statistics.median(self._times))
            self._say()

    def _say(self):
        peak = "not looked at" if self._peak is None else sizes.text(self._peak)
        say(f"planned steps take {self.measured.seconds:.4f} s (predicted {self._predicted.seconds:.4f}) and at most {peak} (predicted "
            f"{sizes.text(self._predicted.peak_bytes)})")

    def _begin_memory(self):
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)
            return
        profiler = torch.autograd.profiler.profile(profile_memory=True)
        self._before_bytes = self._base_bytes + sum(
            parameter.grad.numel() * parameter.grad.element_size() for parameter in self._model.parameters() if parameter.grad is not None)
        try:
            profiler.__enter__()
        except RuntimeError:  # another one is active
            return
        self._profiler = profiler

    def _end_memory(self):
        if self._device.type == "cuda":
            self._peak = torch.cuda.max_memory_allocated(self._device)
        if self._profiler is None:
            return
        profiler, self._profiler = self._profiler, None
        profiler.__exit__(None, None, None)
        events = []
        _walk(profiler.kineto_results.experimental_event_tree(), self._device, events)
        self._peak = self._before_bytes + peak_of(events)


def peak_of(events):
    """The most of what was taken since the first event; what was there before and is given back does not count."""
    live, taken, most = 0, {}, 0
    for _, what, address, nbytes in sorted(events, key=lambda event: event[0]):
        if what == "take":
            taken[address] = nbytes
            live += nbytes
        elif what == "give":
            live -= taken.pop(address, 0)
        most = max(most, live)
    return most
