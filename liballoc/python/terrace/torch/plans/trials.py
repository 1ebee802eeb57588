"""What steps take under a choice, to plain ones: measured in turns, since a machine's pace changes while others use it.

The replay ranks thousands of choices, and errs by more than the first of them differ: copies that are packed, recomputing and computing
disturb each other on a processor that all of them need. So the finalists (choose.py) are run, and the fastest is taken.
"""
from __future__ import annotations

import math
from dataclasses import replace
from statistics import median

from .force import put_in_force
from .observe import time_step

ROUNDS, MOST_ROUNDS = 3, 7
SECONDS = 3.0  # of plain steps: short ones need more rounds for the same noise


def ratio(run, step, choice, sessions, device, rounds):
    """The time of a step under the choice to that of a plain one."""
    def in_force():
        with put_in_force(step, choice, sessions):
            return time_step(run, device)

    in_force()  # the engine learns the order in which tensors are wanted
    return median(in_force() / time_step(run, device) for _ in range(rounds))


def fastest(run, step, finalists, sessions, device):
    """Of Chosen the fastest, with the seconds that it takes. The model is afterwards as it was if `run.unchanged()` is around it."""
    rounds = min(MOST_ROUNDS, max(ROUNDS, math.ceil(SECONDS / step.plain_seconds)))

    def takes(chosen):
        return step.plain_seconds * ratio(run, step, chosen.choice, sessions, device, rounds)

    best = min(finalists, key=takes)
    return replace(best, seconds=takes(best))  # anew: the least of several figures is too good to come again
