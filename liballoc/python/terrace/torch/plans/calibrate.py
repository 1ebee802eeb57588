"""What moving and recomputing cost beside what the replay knows: measured by steps in which every segment does the same.

A copy takes memory's bandwidth, and on a host processor's tensors its time as well; a recomputation has its own overhead. Each kind is
tried by itself, in alternation with plain steps, and what the step takes beyond its prediction is divided by what the kind did: by the time
that the links were busy, or by the time that was computed again.
"""
from __future__ import annotations

from .replay import RECOMPUTE, Overheads
from .trials import ratio

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
        beyond = ratio(run, replay.step, choice, sessions, device, ROUNDS) * replay.step.plain_seconds - found.seconds
        overhead = min(MOST_OVERHEAD, max(0.0, beyond / amount))
        if kind == RECOMPUTE:
            recomputing = overhead
        else:
            moving[kind] = overhead
    return Overheads(moving, recomputing)
