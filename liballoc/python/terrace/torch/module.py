"""terrace.torch.offload_module: the same without a with-block in the training loop; and policies for modules in it."""
from __future__ import annotations

import copyreg
import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch

from .policy import policy
from .session import offload

_SESSION = "_terrace_offload"
_VERDICT = "_terrace_verdict"
PLAN = "_terrace_plan"  # called with (function, arguments, keywords) in the function's place
RUNS = "_terrace_runs"  # of a Sequential: (first child, end, as PLAN) of those that are run as one
_ATTRIBUTES = (_SESSION, _VERDICT, PLAN, RUNS)

Filter = Callable[[str, torch.nn.Module], "bool | None"]


def offload_module(model: torch.nn.Module, session: offload | None = None, *, filter: Filter | None = None,  # noqa: A002
                   **settings: Any) -> ModuleHandle:
    """From now on what `model` saves in its forward passes is offloaded; the handle's remove() ends it.

        handle = terrace.torch.offload_module(
            model, filter=lambda name, module: False if isinstance(module, torch.nn.LayerNorm) else None)

    `settings` are those of terrace.torch.offload; `session` is one that exists, to be shared. `filter` is asked once for
    `model`, under the name "", and for each module in it, by its name in named_modules(): False, what that module's forward
    pass saves stays; True, it may leave, though a module around it stays or the session takes checkpoints' inputs only; None,
    as the module around it.

    The model and its modules stay the same objects, of subclasses of their classes, so hooks, DistributedDataParallel,
    DataParallel and state_dict() see no difference. Copies, pickled or deep, are of the classes that they had, and not
    offloaded. ValueError: it is offloaded already, or `session` comes with settings. TypeError: the filter's answer is
    none of the three.
    """
    if _SESSION in vars(model):
        raise ValueError(f"{type(model).__name__} is offloaded already; remove() that handle first")
    if session is not None and settings:
        raise ValueError(f"session: it has its own settings; leave out {', '.join(settings)}")
    verdicts = [] if filter is None else _verdicts(model, filter)
    session = session or offload(**settings)
    handle = ModuleHandle(session)
    for module, verdict in verdicts:
        handle.give(module, _VERDICT, verdict)
    handle.give(model, _SESSION, session)
    return handle


def gradient_checkpointing_enable(model: torch.nn.Module, gradient_checkpointing_kwargs: Mapping[str, Any] | None = None,
                                  **settings: Any) -> ModuleHandle | None:
    """model.gradient_checkpointing_enable() of Hugging Face's transformers, whose `"offload": True` is done by Terrace.

        handle = terrace.torch.gradient_checkpointing_enable(
            model, gradient_checkpointing_kwargs={"use_reentrant": False, "offload": True}, tiers="dram,nvme")

    The model is told everything else of the dictionary. With a true "offload" the inputs of its checkpoints go where
    `settings`, those of terrace.torch.offload, say; the handle is offload_module()'s. Without it None is returned, and
    settings are a ValueError. Transformers' own offload (5.17 and later) is not used beside it: hooks inside of ours would win.
    """
    given = dict(gradient_checkpointing_kwargs or {})
    wanted = given.pop("offload", False)
    if not wanted and settings:
        raise ValueError(f"gradient_checkpointing_kwargs: has no \"offload\": True, which {', '.join(settings)} would be for")
    if not hasattr(model, "gradient_checkpointing_enable"):
        raise ValueError(f"model: {type(model).__name__} has no gradient_checkpointing_enable(), as transformers' models have; "
                         "put torch.utils.checkpoint into its forward() and call offload_module(model, only=\"checkpoints\")")
    enable: Any = model.gradient_checkpointing_enable
    enable(**({"gradient_checkpointing_kwargs": given} if given else {}))
    settings.setdefault("only", "checkpoints")
    return offload_module(model, **settings) if wanted else None


class ModuleHandle:
    """What offload_module() returns: `session` has statistics() and close()."""

    def __init__(self, session):
        self.session = session
        self._changed = []  # module, attribute, the class it had and the one it was given

    def give(self, module, attribute, value):
        plain = type(module)
        given = _class_around(plain, attribute)
        object.__setattr__(module, "__class__", given)
        vars(module)[attribute] = value
        self._changed.append((module, attribute, plain, given))

    def remove(self) -> None:
        """The model is as it was. What is stored stays until its backward. Again is allowed."""
        while self._changed:
            module, attribute, plain, given = self._changed.pop()
            vars(module).pop(attribute, None)
            if type(module) is given:  # else a later handle's class is around it, and does nothing but for that handle
                object.__setattr__(module, "__class__", plain)


def _verdicts(model, wanted):
    """[(module, True or False)]."""
    asked = [(name, module, wanted(name, module)) for name, module in model.named_modules()]
    for name, module, answer in asked:
        if answer not in (True, False, None) or not isinstance(answer, (bool, type(None))):
            raise TypeError(f"filter: {answer!r} for {name or 'the model itself'} ({type(module).__name__}) is no answer; return "
                            "True, False, or None for what the module around it does")
        if answer is not None and _VERDICT in vars(module):
            raise ValueError(f"filter: {name or 'the model itself'} ({type(module).__name__}) is under another handle's filter "
                             "already; remove() that handle first")
    return [(module, answer) for _, module, answer in asked if answer is not None]


def _class_around(plain, attribute):
    """A subclass whose forward passes run as the object's `attribute` says."""
    def __call__(self, *arguments, **keywords):
        value = vars(self).get(attribute)
        if value is None:  # its handle was removed before that of a class around it
            return plain.__call__(self, *arguments, **keywords)
        if attribute is PLAN:
            return value(functools.partial(plain.__call__, self), arguments, keywords)
        with value if attribute is _SESSION else policy.block(value):
            return plain.__call__(self, *arguments, **keywords)

    def __reduce_ex__(self, protocol):
        # As an object of the plain class would be taken apart: copies are not offloaded.
        reduced = plain.__reduce_ex__(self, protocol)
        if isinstance(reduced, str):
            return reduced
        # Pickle insists that what __newobj__ makes is of the object's own class; object.__new__ makes the same.
        make = object.__new__ if reduced[0] is copyreg.__newobj__ else reduced[0]
        return (make, *(_without_offload(part, type(self), plain) for part in reduced[1:]))

    def forward(self, value):
        children, at = list(self), 0
        for first, end, run in [*vars(self).get(RUNS, ()), (len(children), len(children), None)]:
            value = _one_after_another(children[at:first], value)
            if run is not None:
                value = run(functools.partial(_one_after_another, children[first:end]), (value,), {})
            at = end
        return value

    call = {"forward": forward} if attribute is RUNS else {"__call__": __call__}
    members = {**call, "__reduce_ex__": __reduce_ex__, "__module__": plain.__module__,
               "__qualname__": plain.__qualname__, "__doc__": plain.__doc__}
    return type(plain.__name__, (plain,), members)


def _one_after_another(modules, value):
    for module in modules:
        value = module(value)
    return value


def _without_offload(part, offloaded, plain):
    if part is offloaded:
        return plain
    if isinstance(part, tuple):
        return tuple(_without_offload(each, offloaded, plain) for each in part)
    if isinstance(part, dict) and any(name in part for name in _ATTRIBUTES):
        return {key: value for key, value in part.items() if key not in _ATTRIBUTES}
    return part
