"""What steps take under a choice, to plain ones: measured in turns, since a machine's pace changes while others use it.

The replay ranks thousands of choices, and errs by more than the first of them differ: copies that are packed, recomputing and computing
disturb each other on a processor that all of them need. So the finalists (choose.py) are run, and the fastest is taken at what it took.
"""
from __future__ import annotations

from dataclasses import replace
from statistics import median

from .force import put_in_force
from .observe import time_step

ROUNDS = 3


def ratio(run, step, choice, sessions, device, rounds):
    """The time of a step under the choice to that of a plain one."""
    def in_force():
        with put_in_force(step, choice, sessions):
            return time_step(run, device)

    in_force()  # the engine learns the order in which tensors are wanted
    return median(in_force() / time_step(run, device) for _ in range(rounds))


def fastest(run, step, finalists, sessions, device):
    """Of Chosen the fastest, with the seconds that it took. The model is afterwards as it was if `run.unchanged()` is around it."""
    tried = [replace(chosen, seconds=step.plain_seconds * ratio(run, step, chosen.choice, sessions, device, ROUNDS)) for chosen in finalists]
    return min(tried, key=lambda chosen: chosen.seconds)
