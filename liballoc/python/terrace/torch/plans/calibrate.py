"""What moving and recomputing cost beside what the replay knows: measured by steps in which every segment does the same.

A copy takes memory's bandwidth, and on a host processor's tensors its time as well; a recomputation has its own overhead. Each kind is
tried by itself, in alternation with plain steps, and what the step takes beyond its prediction is divided by what the kind did: by the time
that the links were busy, or by the time that was computed again.
"""
from __future__ import annotations

from statistics import median

from .force import put_in_force
from .observe import time_step
from .replay import RECOMPUTE, Overheads

ROUNDS = 2
MOST_OVERHEAD = 4.0  # seconds a second: what lies beyond is a disturbance


def calibrate(run, replay, sessions, device):
    """Overheads. The model is afterwards as it was if `run.unchanged()` is around it."""
    moving, recomputing = {}, 0.0
    for kind in replay.kinds():
        choice = replay.uniform(kind)
        found = replay.predict(choice)
        amount = found.recomputed_seconds if kind == RECOMPUTE else found.moving_seconds[kind]
        if amount <= 0:
            continue
        beyond = _ratio(run, replay.step, choice, sessions, device) * replay.step.plain_seconds - found.seconds
        overhead = min(MOST_OVERHEAD, max(0.0, beyond / amount))
        if kind == RECOMPUTE:
            recomputing = overhead
        else:
            moving[kind] = overhead
    return Overheads(moving, recomputing)


def _ratio(run, step, choice, sessions, device):
    """The time of a step under the choice to that of a plain one."""
    def in_force():
        with put_in_force(step, choice, sessions):
            return time_step(run, device)

    in_force()  # the engine learns the order in which tensors are wanted
    return median(in_force() / time_step(run, device) for _ in range(ROUNDS))
