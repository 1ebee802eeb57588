"""A segment under torch.utils.checkpoint, with the same bits as without.

PyTorch's checkpoint restores random numbers. What it does not restore are buffers that the forward pass changes, as the running
statistics of a batch normalisation: they would be updated twice. Here the second run sees them as the first one did, in copies
that are dropped behind it.
"""
import torch
from torch.utils.checkpoint import checkpoint

from ..errors import OffloadError
from .segments import tensors_in


class Recompute:
    """`buffers`: (module, name) of those that the segment's forward pass changes."""

    def __init__(self, name, buffers):
        self._name, self._buffers = name, buffers

    def __call__(self, function, arguments, keywords):
        if not torch.is_grad_enabled():
            return function(*arguments, **keywords)
        arguments, keywords = _as_it_is(arguments), _as_it_is(keywords)
        before = [(module, name, module._buffers[name].detach().clone()) for module, name in self._buffers]
        versions = [tensor._version for tensor in tensors_in([arguments, keywords])]
        runs = []

        def run(*arguments, **keywords):
            runs.append(None)
            if len(runs) == 1:
                return function(*arguments, **keywords)
            if versions != [tensor._version for tensor in tensors_in([arguments, keywords])]:
                raise OffloadError(f"what {self._name} was called with was changed in place since, so it cannot be recomputed; "
                                   "change a copy, or plan the model with policy='offload'")
            return _with_buffers(before, lambda: function(*arguments, **keywords))

        return checkpoint(run, *arguments, use_reentrant=False, **keywords)


def _as_it_is(value):
    """Lists and dictionaries are copied: the program may put more into its own before they are used again, as DenseNet does."""
    if type(value) in (list, tuple):
        return type(value)(map(_as_it_is, value))
    if type(value) is dict:
        return {key: _as_it_is(inner) for key, inner in value.items()}
    return value


def _with_buffers(before, function):
    now = [module._buffers[name] for module, name, _ in before]
    try:
        for module, name, was in before:
            module._buffers[name] = was.clone()
        return function()
    finally:
        for (module, name, _), buffer in zip(before, now):
            module._buffers[name] = buffer
