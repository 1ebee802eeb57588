"""Step times of one contender against plain, so that a drifting machine drifts for both.

Two processes live side by side and take turns: A B B A A B B A …, a few steps each. A round is one turn of each;
its ratio is the contender's median step by plain's. The result is the median over the rounds, with the spread of
the rounds beside it: a difference smaller than that spread says nothing.
"""
from dataclasses import dataclass, field
from statistics import median

LEAST_ROUNDS = 3  # that have quartiles worth the name

@dataclass
class Rounds:
    plain: list = field(default_factory=list)      # one list of seconds for each round
    contender: list = field(default_factory=list)

    def ratios(self):
        return [median(ours) / median(theirs) for ours, theirs in zip(self.contender, self.plain)]

    def ratio(self):
        return median(self.ratios())

    def spread(self):
        """Half of the distance between the quartiles of the rounds' ratios; None with too few to say."""
        ordered = sorted(self.ratios())
        if len(ordered) < LEAST_ROUNDS:
            return None
        return (quantile(ordered, 0.75) - quantile(ordered, 0.25)) / 2

    def step_seconds(self):
        return median(second for turn in self.contender for second in turn)

    def plain_step_seconds(self):
        return median(second for turn in self.plain for second in turn)


def quantile(ordered, share):
    """With linear interpolation between the neighbours."""
    position = (len(ordered) - 1) * share
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def turns(rounds):
    """("plain", "contender") or the reverse, for each round: A B, B A, A B, …"""
    order = ("plain", "contender")
    return [order if number % 2 == 0 else order[::-1] for number in range(rounds)]


def alternate(plain, contender, rounds):
    """`plain()` and `contender()` each run one turn and return its seconds, step by step."""
    result = Rounds()
    run = {"plain": lambda: result.plain.append(plain()), "contender": lambda: result.contender.append(contender())}
    for order in turns(rounds):
        for name in order:
            run[name]()
    return result
