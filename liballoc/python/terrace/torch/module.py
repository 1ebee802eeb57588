"""terrace.torch.offload_module: the same without a with-block in the training loop."""
from __future__ import annotations

import copyreg
from typing import Any

import torch

from .session import offload

_ATTRIBUTE = "_terrace_offload"


def offload_module(model: torch.nn.Module, session: offload | None = None, **settings: Any) -> ModuleHandle:
    """From now on what `model` saves in its forward passes is offloaded; the handle's remove() ends it.

    `settings` are those of terrace.torch.offload; `session` is one that exists, to be shared. The model stays the
    same object, of a subclass of its class, so hooks, DistributedDataParallel, DataParallel and state_dict() see no
    difference. Copies of it, pickled or deep, are of the class that it had, and not offloaded.
    """
    if _ATTRIBUTE in vars(model):
        raise ValueError(f"{type(model).__name__} is offloaded already; remove() that handle first")
    if session is not None and settings:
        raise ValueError(f"session: it has its own settings; leave out {', '.join(settings)}")
    session = session or offload(**settings)
    plain = type(model)
    object.__setattr__(model, "__class__", _offloaded_class(plain))
    vars(model)[_ATTRIBUTE] = session
    return ModuleHandle(model, plain, session)


class ModuleHandle:
    """What offload_module() returns: `session` has statistics() and close()."""

    def __init__(self, model, plain, session):
        self._model, self._plain, self.session = model, plain, session

    def remove(self) -> None:
        """The model is as it was. What is stored stays until its backward. Again is allowed."""
        if vars(self._model).pop(_ATTRIBUTE, None) is not None:
            object.__setattr__(self._model, "__class__", self._plain)


def _offloaded_class(plain):
    def __call__(self, *arguments, **keywords):
        with vars(self)[_ATTRIBUTE]:
            return plain.__call__(self, *arguments, **keywords)

    def __reduce_ex__(self, protocol):
        # As an object of the plain class would be taken apart: copies are not offloaded.
        reduced = plain.__reduce_ex__(self, protocol)
        if isinstance(reduced, str):
            return reduced
        # Pickle insists that what __newobj__ makes is of the object's own class; object.__new__ makes the same.
        make = object.__new__ if reduced[0] is copyreg.__newobj__ else reduced[0]
        return (make, *(_without_offload(part, type(self), plain) for part in reduced[1:]))

    members = {"__call__": __call__, "__reduce_ex__": __reduce_ex__, "__module__": plain.__module__,
               "__qualname__": plain.__qualname__, "__doc__": plain.__doc__}
    return type(plain.__name__, (plain,), members)


def _without_offload(part, offloaded, plain):
    if part is offloaded:
        return plain
    if isinstance(part, tuple):
        return tuple(_without_offload(each, offloaded, plain) for each in part)
    if isinstance(part, dict) and _ATTRIBUTE in part:
        return {key: value for key, value in part.items() if key != _ATTRIBUTE}
    return part
