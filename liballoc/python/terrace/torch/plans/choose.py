"""Which of keep, offload, compress and recompute each segment gets, for a budget of device memory.

keep, offload, checkpoint   all segments alike; the first two and torch.utils.checkpoint around every segment
superneurons    SuperNeurons (PPoPP'18, sections 3.3 and 3.4): what is cheap to compute (no convolution, no matrix) is recomputed, the
                rest leaves in the order of the forward pass, until the step fits. Of its cache: nothing leaves while it fits
flashneuron, capuchin, …    policies of `terrace plan`, carried over to segments (published.py)
best            the fastest that any of these finds, and a local search from each, with all kinds and with each alone. The fastest of
                each, and each kind for all segments, are tried (trials.py), since the replay errs by more than they differ

Every choice is predicted by the replay, so what is compared is the step and not a rule's own estimate.
"""
from __future__ import annotations

import random
from dataclasses import dataclass

import torch

from .replay import KEEP, OFFLOAD, RECOMPUTE

UNIFORM = {"keep": KEEP, "offload": OFFLOAD, "checkpoint": RECOMPUTE}
HEAVY = (torch.nn.modules.conv._ConvNd, torch.nn.Linear, torch.nn.MultiheadAttention, torch.nn.RNNBase)
MOVING = 0.01  # of the time that a lane is busy counts as time of the step, so that what need not move stays
CURVE = (95, 90, 80, 70, 60, 50, 40, 35, 30)  # percent of the plain step's peak
WORTH_A_TRIAL = 1.25  # of the fastest's predicted time


@dataclass(frozen=True)
class Chosen:
    choice: tuple
    peak_bytes: int
    seconds: float
    moving_seconds: float


class Chooser:
    def __init__(self, replay, evaluations=500, seed=0):
        self._replay, self._evaluations, self._random = replay, evaluations, random.Random(seed)
        self._known = {}
        self._count = len(replay.step.segments)

    def of(self, choice):
        choice = tuple(choice)
        if choice not in self._known:
            found = self._replay.predict(choice)
            self._known[choice] = Chosen(choice, found.peak_bytes, found.seconds, sum(found.moving_seconds.values()))
        return self._known[choice]

    def uniform(self, kind):
        return self.of(self._replay.uniform(kind))

    def superneurons(self, budget):
        choice = [KEEP] * self._count
        heavy = [_is_heavy(segment) for segment in self._replay.step.segments]
        for wanted, kind in ((False, RECOMPUTE), (True, OFFLOAD)):
            for number in range(self._count):
                if self.of(choice).peak_bytes <= budget:
                    return self.of(choice)
                if heavy[number] == wanted and kind in self._replay.options(number):
                    choice[number] = kind
        return self.of(choice)

    def best(self, budget, starts=()):
        """The fastest found within `budget`; where none is, that of the smallest peak."""
        starts = [*starts, *self._starts(budget)]
        kinds = KEEP, *self._replay.kinds()
        for start in dict.fromkeys(start.choice for start in starts):
            self._search(start, budget, self._evaluations // max(1, len(starts)), kinds)
        return self.within(budget)

    def finalists(self, budget):
        """The fastest within `budget` of all that was ever looked at, and of each kind alone, for some segments and for all; those that
        are worth a trial."""
        found = [self.within(budget)]
        if found[0] == self.uniform(KEEP):
            return found
        for kind in self._replay.kinds():
            for start in (self.uniform(kind), self._by_order(budget, kind)):
                self._search(start.choice, budget, self._evaluations // 8, (KEEP, kind))
            found.append(min((chosen for chosen in self._known.values() if set(chosen.choice) <= {KEEP, kind}),
                             key=lambda chosen: _worth(chosen, budget)))
            found.append(self.uniform(kind))
        return [chosen for chosen in dict.fromkeys(found)
                if chosen.peak_bytes <= budget and chosen.seconds <= WORTH_A_TRIAL * found[0].seconds]

    def within(self, budget):
        """The best of all that was ever looked at."""
        return min(self._known.values(), key=lambda chosen: _worth(chosen, budget))

    def smallest(self):
        """The choice of the least peak that a search finds."""
        return self.best(0)

    def curve(self, percents=CURVE):
        """[(percent, Chosen or None)]: what the step costs at other budgets."""
        budgets = {percent: self.uniform(KEEP).peak_bytes * percent // 100 for percent in percents}
        for budget in budgets.values():
            self.best(budget)
        return [(percent, self._fastest(budget)) for percent, budget in budgets.items()]

    def _fastest(self, budget):
        fits = [chosen for chosen in self._known.values() if chosen.peak_bytes <= budget]
        return min(fits, key=lambda chosen: chosen.seconds, default=None)

    def _starts(self, budget):
        yield self.uniform(KEEP)
        for kind in self._replay.kinds():
            yield self.uniform(kind)
        yield self.superneurons(budget)
        yield self._by_order(budget, RECOMPUTE)
        yield self._by_order(budget, OFFLOAD)

    def _by_order(self, budget, kind):
        """One segment after the other until the step fits: in the step's order, or of what is computed again the cheapest first."""
        def cost(number):
            return self._replay.recompute_seconds(number) / max(1, self._replay.saved_bytes(number)) if kind == RECOMPUTE else number

        choice = [KEEP] * self._count
        for number in sorted(range(self._count), key=cost):
            if self.of(choice).peak_bytes <= budget:
                break
            if kind in self._replay.options(number):
                choice[number] = kind
        return self.of(choice)

    def _search(self, choice, budget, evaluations, kinds):
        """Changes one segment, or two of them, to one of `kinds`, for as long as that makes the step better."""
        best, numbers, until = self.of(choice), list(range(self._count)), len(self._known) + evaluations
        options = [[kind for kind in self._replay.options(number) if kind in kinds] for number in numbers]
        improved = True
        while improved and len(self._known) < until:
            improved = False
            self._random.shuffle(numbers)
            for number in numbers:
                for kind in options[number]:
                    found = self._try(best, {number: kind})
                    if _worth(found, budget) < _worth(best, budget):
                        best, improved = found, True
        for _ in range(2 * evaluations):
            if len(self._known) >= until or self._count < 2:
                return
            pair = self._random.sample(numbers, 2)
            found = self._try(best, {number: self._random.choice(options[number]) for number in pair})
            if _worth(found, budget) < _worth(best, budget):
                best = found

    def _try(self, chosen, changes):
        return self.of(changes.get(number, kind) for number, kind in enumerate(chosen.choice))


def _worth(chosen, budget):
    return max(0, chosen.peak_bytes - budget), chosen.seconds + MOVING * chosen.moving_seconds


def _is_heavy(segment):
    modules = [segment.owner] if segment.first is None else list(segment.owner)[segment.first:segment.end]
    return any(isinstance(inner, HEAVY) for module in modules for inner in module.modules())
