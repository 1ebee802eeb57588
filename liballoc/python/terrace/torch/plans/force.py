"""A choice for each segment, put in force around the model's modules."""
from __future__ import annotations

import functools

from .around import Around
from .recompute import Recompute
from .replay import KEEP, RECOMPUTE


def put_in_force(step, choice, sessions):
    """The Around that runs each segment of `step` as `choice` says; `sessions` has one for each kind that moves."""
    runs = {number: _run_of(step, number, kind, sessions) for number, kind in enumerate(choice) if kind != KEEP}
    chosen = list(runs)
    return Around([step.segments[number] for number in chosen],
                  lambda place, function, arguments, keywords: runs[chosen[place]](function, arguments, keywords))


def _run_of(step, number, kind, sessions):
    if kind == RECOMPUTE:
        return Recompute(step.segments[number].name, step.buffers.get(number, ()))
    return functools.partial(_inside, sessions[kind])


def _inside(session, function, arguments, keywords):
    with session:
        return function(*arguments, **keywords)
