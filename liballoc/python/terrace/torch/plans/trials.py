"""What steps take under a choice, to plain ones: measured in turns, since a machine's pace changes while others use it.

The replay ranks thousands of choices, and errs by more than the first of them differ: copies that are packed, recomputing and computing
disturb each other on a processor that all of them need. So the finalists (choose.py) are run, the first two of them again, and the
faster is taken.
"""
from __future__ import annotations

import math
from dataclasses import replace
from statistics import median

from .force import put_in_force
from .observe import time_step

ROUNDS, MOST_ROUNDS = 3, 7
LAST_ROUNDS = 5  # at least, of what is taken: its time is what plan() says
SECONDS = 3.0  # of plain steps: short ones need more rounds for the same noise


def ratio(run, step, choice, sessions, device, rounds):
    """The time of a step under the choice to that of a plain one."""
    return median(ratios(run, step, choice, sessions, device, rounds))


def ratios(run, step, choice, sessions, device, rounds):
    def in_force():
        with put_in_force(step, choice, sessions):
            return time_step(run, device)

    in_force()  # the engine learns the order in which tensors are wanted
    return [in_force() / time_step(run, device) for _ in range(rounds)]


def fastest(run, step, finalists, sessions, device):
    """Of Chosen the fastest, with the seconds that it takes. The model is afterwards as it was if `run.unchanged()` is around it."""
    rounds = min(MOST_ROUNDS, max(ROUNDS, math.ceil(SECONDS / step.plain_seconds)))
    best = finalists[0]
    if len(finalists) > 1:
        found = {chosen: [] for chosen in finalists}
        for pick in len(finalists), 2:  # the order of the first two may be noise
            for chosen in sorted(finalists, key=lambda chosen: median(found[chosen] or [0]))[:pick]:
                found[chosen] += ratios(run, step, chosen.choice, sessions, device, rounds)
        best = min((chosen for chosen in finalists if len(found[chosen]) > rounds), key=lambda chosen: median(found[chosen]))
    # Anew: the least of several figures is too good to come again.
    return replace(best, seconds=step.plain_seconds * ratio(run, step, best.choice, sessions, device, max(rounds, LAST_ROUNDS)))
