"""Other ways to run an operator that give the same: by another algorithm, or with its batch cut in parts that run one after
the other. Measured where the step calls it, on what it is called with; and, of a schedule, run in place of its own way.

Only convolutions have other ways here: they are what has workspaces worth choosing among. A way that does not give the
same result within rounding is left out, as is one that the operator refuses.
"""
import contextlib
import statistics
import time

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import step_memory
from step_modes import op_name, storage_of, tensors_in

PARTS = (2, 4)
TOLERANCE = 1e-3  # of the largest element: algorithms add in another order


def library_off(device):
    """Without cuDNN or oneDNN, whichever the device has: PyTorch's own algorithm."""
    if device.type == "cuda":
        return torch.backends.cudnn.flags(enabled=False)
    return torch.backends.mkldnn.flags(enabled=False)


def without_library(func, args, kwargs):
    with library_off(args[0].device):
        return func(*args, **kwargs)


def channels_last(func, args, kwargs):
    """Arguments in the other layout, results in the usual one: what surrounds the operator stays as it is."""
    turned = [a.contiguous(memory_format=torch.channels_last) if isinstance(a, torch.Tensor) and a.dim() == 4 else a
              for a in args]
    result = func(*turned, **kwargs)
    if isinstance(result, torch.Tensor):
        return result.contiguous()
    return tuple(r.contiguous() if isinstance(r, torch.Tensor) else r for r in result)


def forward_in_parts(func, args, kwargs, parts):
    result, begin = None, 0
    for piece in args[0].chunk(parts):
        part = func(piece, *args[1:], **kwargs)
        if result is None:
            result = part.new_empty((args[0].shape[0], *part.shape[1:]))
        result[begin:begin + len(piece)].copy_(part)
        begin += len(piece)
    return result


def backward_in_parts(func, args, kwargs, parts):
    """The input's gradient part by part, those of weight and bias as sums."""
    wanted = args[10]
    of_input = torch.empty_like(args[1]) if wanted[0] else None
    sums, begin = [None, None], 0
    for gradient, piece in zip(args[0].chunk(parts), args[1].chunk(parts)):
        results = func(gradient, piece, *args[2:], **kwargs)
        if of_input is not None:
            of_input[begin:begin + len(piece)].copy_(results[0])
        for i, part in enumerate(results[1:]):
            if wanted[i + 1]:
                sums[i] = part if sums[i] is None else sums[i].add_(part)
        begin += len(piece)
    return (of_input, *sums)


def ways(name, args):
    """By name, what to call with (func, args, kwargs) instead of func."""
    in_parts = {"aten::convolution": forward_in_parts, "aten::convolution_backward": backward_in_parts}.get(name)
    if in_parts is None or args[0].dim() != 4:
        return {}
    result = {"own algorithm": without_library, "channels last": channels_last}
    for parts in PARTS:
        if args[0].shape[0] >= parts:
            result[f"parts {parts}"] = lambda f, a, k, parts=parts: in_parts(f, a, k, parts)
    return result


def same(result, expected):
    pairs = list(zip(tensors_in(result), tensors_in(expected)))
    return all(a.shape == b.shape and a.stride() == b.stride() and
               (a - b).abs().max().item() <= TOLERANCE * max(b.abs().max().item(), 1e-30) for a, b in pairs)


def time_us(call, device, runs):
    call()
    samples = []
    for _ in range(runs):
        begin = time.perf_counter()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize()
        samples.append((time.perf_counter() - begin) * 1e6)
    return statistics.median(samples)


def workspace_bytes(call, device):
    """What it allocates at most, less the storages that it gives."""
    kept = []
    events = step_memory.allocations(lambda: kept.append(call()), device)
    given = {storage_of(t)._cdata: storage_of(t).nbytes() for t in tensors_in(kept)}
    return max(0, step_memory.peak_bytes(events) - sum(given.values()))


class VariantsMode(TorchDispatchMode):
    """Runs the step, and each operator that has other ways also in these: variants by the operator's index, their times as
    shares of its own, all measured at the same place."""

    def __init__(self, runs):
        super().__init__()
        self.runs = runs
        self.count = 0
        self.found = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        index, self.count = self.count, self.count + 1
        result = func(*args, **kwargs)
        others = ways(op_name(func), args)
        if others:
            self.found[index] = self._measure(func, args, kwargs, others, result)
        return result

    def _measure(self, func, args, kwargs, others, expected):
        device, found = args[0].device, []
        own_us = time_us(lambda: func(*args, **kwargs), device, self.runs)
        for name, way in others.items():
            call = lambda way=way: way(func, args, kwargs)
            with contextlib.suppress(RuntimeError):  # an algorithm that does not take these arguments
                if same(call(), expected):
                    found.append({"name": name, "share": time_us(call, device, self.runs) / own_us,
                                  "workspace_bytes": workspace_bytes(call, device)})
        return found


def fill_variants(ops, step, runs):
    """Adds "variants" to operators; must come after their times are known."""
    mode = VariantsMode(runs)
    with mode:
        step()
    if mode.count != len(ops):
        raise ValueError("the step runs other operators each time; a trace of one step would not describe it")
    for index, found in mode.found.items():
        variants = [{"name": v["name"], "time_us": round(v["share"] * ops[index]["time_us"], 3),
                     "workspace_bytes": v["workspace_bytes"]} for v in found]
        if variants:
            ops[index]["variants"] = variants


def is_operator(op):
    """Of a trace's operation: not one that the profiler added."""
    return op["name"] not in ("release", "between operators")


class ChosenMode(TorchDispatchMode):
    """Runs a step with the variants that a schedule names. Enter it anew for each step."""

    def __init__(self, trace, schedule):
        super().__init__()
        named = {choice["op"]: choice["variant"] for choice in schedule.get("variants", [])}
        self.names = [(op["name"], named.get(i)) for i, op in enumerate(trace["ops"]) if is_operator(op)]
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self.count >= len(self.names) or self.names[self.count][0] != op_name(func):
            raise ValueError("the step runs other operators than the trace has")
        variant = self.names[self.count][1]
        self.count += 1
        return ways(op_name(func), args)[variant](func, args, kwargs) if variant else func(*args, **kwargs)
