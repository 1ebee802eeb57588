"""The segments of a model: module calls, or runs of neighbours in a Sequential, that a plan decides on one by one.

A segment is what can be checkpointed as a whole: it is called once in a forward pass. A model is split from its root down
until a segment saves at most an eighth of what the step saves, but never within a block of leaf modules, since to
recompute a leaf frees nothing: its input is what it saves. Small neighbours in a Sequential are one segment.

      model ── stem │ layer1: block block block │ layer2: … │ head
                  └─ one each ┘
"""
from __future__ import annotations

from dataclasses import dataclass

import torch

from ..compat import storage_of

LARGE = 8    # of what a step saves, the part beyond which a module is split
SMALL = 32   # the part below which neighbours are put together
LEAVES = 10  # the same of runs of leaf modules


@dataclass(frozen=True)
class Segment:
    """A call of `owner`; or, of a Sequential, its children from `first` to before `end`."""

    name: str
    owner: torch.nn.Module
    first: int | None = None
    end: int = 0


class Seen:
    """What one forward pass showed of a module."""

    __slots__ = ("calls", "saved_bytes", "changes_input")

    def __init__(self):
        self.calls = self.saved_bytes = 0
        self.changes_input = False


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from tensors_in(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from tensors_in(inner)


def find_segments(model, forward):
    """The segments of `model`, in the order of its modules. `forward` runs its forward pass."""
    return _Splitter(_look(model, forward), model).segments


def _look(model, forward):
    """{module: Seen} of a forward pass."""
    seen, stack, handles = {}, [], []
    known = {storage_of(tensor).data_ptr() for tensor in model.parameters()}  # views of them are saved, too, and cost nothing

    def enter(module, inputs):
        stack.append((seen.setdefault(module, Seen()), [(tensor, tensor._version) for tensor in tensors_in(inputs)]))

    def leave(module, inputs, output):
        of, versions = stack.pop()
        of.calls += 1
        of.changes_input |= any(tensor._version != version for tensor, version in versions)

    def pack(tensor):
        storage = storage_of(tensor)
        if storage.data_ptr() not in known:
            known.add(storage.data_ptr())
            for of, _ in stack:
                of.saved_bytes += storage.nbytes()
        return tensor.detach()

    for module in model.modules():
        handles += [module.register_forward_pre_hook(enter), module.register_forward_hook(leave)]
    try:
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            forward()
    finally:
        for handle in handles:
            handle.remove()
    return seen


def _is_sequential(module):
    return type(module).forward is torch.nn.Sequential.forward


class _Splitter:
    def __init__(self, seen, model):
        self._seen, self.segments = seen, []
        self._total = seen[model].saved_bytes
        self._split("", model, whole=False)

    def _saved(self, module):
        """Of a module that is not called, as a ModuleList: what its children save."""
        if module in self._seen:
            return self._seen[module].saved_bytes
        return sum(self._saved(child) for child in module.children())

    def _has_parts(self, module):
        """Whether it is a Sequential, or half of what it saves is saved by children that are more than leaves."""
        if _is_sequential(module) and len(module) > 1:
            return True
        parts = [child for child in module.children() if any(map(self._saved, child.children()))]
        return 2 * sum(map(self._saved, parts)) > self._saved(module)

    def _split(self, name, module, whole=True):
        of = self._seen.get(module)
        if of is not None and (of.calls > 1 or of.saved_bytes == 0):
            return
        if of is not None and whole and not (of.saved_bytes * LARGE > self._total and self._has_parts(module)):
            self._add(Segment(name, module))
        elif of is not None and _is_sequential(module):
            self._split_sequential(name, module)
        else:  # a ModuleList or its like is not called
            before = len(self.segments)
            for child_name, child in module.named_children():
                self._split(f"{name}.{child_name}".lstrip("."), child)
            inside = sum(self._saved(segment.owner) for segment in self.segments[before:] if segment.first is None)
            if whole and of is not None and 2 * inside < of.saved_bytes and not any(
                    segment.first is not None for segment in self.segments[before:]):
                self.segments[before:] = []  # most is saved by its own code
                self._add(Segment(name, module))

    def _add(self, segment):
        if segment.first is None and segment.owner in self._seen and self._seen[segment.owner].changes_input:
            return  # to run it once more would change its input once more
        self.segments.append(segment)

    def _split_sequential(self, name, module):
        children, first, run_bytes = list(module.named_children()), 0, 0
        for index, (child_name, child) in enumerate(children):
            of = self._seen.get(child)
            if of is None or of.calls != 1 or (of.saved_bytes * LARGE > self._total and self._has_parts(child)):
                self._add_run(name, module, children, first, index)
                self._split(f"{name}.{child_name}".lstrip("."), child)
                first, run_bytes = index + 1, 0
                continue
            run_bytes += of.saved_bytes
            following = self._seen.get(children[index + 1][1]) if index + 1 < len(children) else None
            enough = run_bytes * (SMALL if list(child.children()) else LEAVES) > self._total
            if enough and not (following is not None and following.changes_input):
                self._add_run(name, module, children, first, index + 1)
                first, run_bytes = index + 1, 0
        self._add_run(name, module, children, first, len(children))

    def _add_run(self, name, module, children, first, end):
        while first < end and self._seen[children[first][1]].changes_input:
            first += 1
        if first == end or not any(self._saved(child) for _, child in children[first:end]):
            return
        names = [f"{name}.{children[index][0]}".lstrip(".") for index in (first, end - 1)]
        if end - first == 1:
            self._add(Segment(names[0], children[first][1]))
        else:
            self._add(Segment(" to ".join(names), module, first, end))
