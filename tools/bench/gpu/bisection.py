"""The largest number that still works, found with few trials: a batch beside a fixed amount of memory.

Doubles from what is known to work until something fails, then halves the gap. A trial is costly (a training step
in a process of its own), so it is made once for each number, and the gap may stay at a share of the answer.
"""


class NothingWorks(Exception):
    """Not even the smallest number does."""


def largest_passing(passes, lowest=1, highest=1 << 20, tolerance=0.0):
    """Returns (largest number seen to pass, smallest seen to fail or None when `highest` passes).

    `passes(number)` must be monotone. The two differ by 1, or by at most `tolerance` of the first.
    """
    if lowest < 1 or highest < lowest:
        raise ValueError(f"nothing lies between {lowest} and {highest}")
    if not passes(lowest):
        raise NothingWorks(f"{lowest} does not work")
    good, bad = _double_until_failure(passes, lowest, highest)
    while bad is not None and bad - good > max(1, int(good * tolerance)):
        middle = (good + bad) // 2
        if passes(middle):
            good = middle
        else:
            bad = middle
    return good, bad


def _double_until_failure(passes, lowest, highest):
    good = lowest
    while good < highest:
        candidate = min(2 * good, highest)
        if not passes(candidate):
            return good, candidate
        good = candidate
    return good, None
