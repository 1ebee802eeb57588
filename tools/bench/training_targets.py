"""What is wanted of training in less memory than stock needs, from the fifth step on.

A step that is planned for takes no longer than stock's at 60% and hardly longer at 40%: what Terrace's heap saves pays for
what moves. At 25% the drive bounds what can be reached. What left is back before it is touched, and planning writes no
more than reacting does. Every network's step is five times as fast as with kernel swap, wherever swap finishes at all:
where all of its runs were killed or ended there is nothing to compare, and the table says so.
"""
import targets

CNN = ("densenet121", "unet")
NETWORKS = (*CNN, "transformer")
STEP_TO_STOCK = {60: (0.85, 1.0), 40: (0.9, 1.05)}  # convolutional networks, the transformer
LEAST_TO_STOCK, TO_BOUND = {25: 1.25}, 1.1           # whichever allows more
BACK_IN_TIME = 0.95
STALLED = {60: 0.02}
PREDICTED = {60: 0.1, 40: 0.1}
WRITTEN_ON_ONE = 0.7
SWAP_PERCENT, SWAP_TO_STEP = 25, 5


def wanted(model):
    """`model`: an entry of the document. Terrace misses whatever it was wanted to do where its results differ."""
    for percent in dict.fromkeys(item.get("percent_of_stock_peak") for item in model["entries"]):
        at = targets.entries_at(model["entries"], percent)
        if targets.judged(at) is None:
            continue
        yield from wanted_at(model["model"], percent, at)


def wanted_at(name, percent, at):
    judged, place = targets.judged(at), f"{name} at {percent}%"
    entry = at[judged] if at[judged].get("bit_identical") else {}
    if name in NETWORKS and (most := most_to_stock(name, percent, entry)):
        yield targets.at_most(f"{place}: step, to stock", entry.get("ratio_to_stock"), most)
    if name in NETWORKS and targets.planned(at):
        yield from wanted_of_plans(place, percent, entry)
    if percent == SWAP_PERCENT and at.get("swap", {}).get("bit_identical"):
        yield targets.at_least(f"{place}: kernel swap's step, to ours", inverse(entry.get("ratio_to_swap")), SWAP_TO_STEP)


def most_to_stock(name, percent, entry):
    if percent in STEP_TO_STOCK:
        return STEP_TO_STOCK[percent][name not in CNN]
    least, stock = LEAST_TO_STOCK.get(percent), stock_step(entry)
    return least and max(least, TO_BOUND * entry["bound_seconds"] / stock if stock and "bound_seconds" in entry else 0)


def stock_step(entry):
    step, to_stock = entry.get("step_seconds_median"), entry.get("ratio_to_stock")
    return step / to_stock if step and to_stock else None


def wanted_of_plans(place, percent, entry):
    yield targets.at_least(f"{place}: back before it is touched", entry.get("back_in_time_share"), BACK_IN_TIME)
    yield targets.at_most(f"{place}: written, to reactive", entry.get("written_to_reactive"), 1)
    if percent in STALLED:
        yield targets.at_most(f"{place}: stalled, of the step", entry.get("stalled_share"), STALLED[percent])
    if percent in PREDICTED:
        error = entry.get("predicted_error")
        yield targets.at_most(f"{place}: step, off what was predicted", None if error is None else abs(error), PREDICTED[percent])


def wanted_of_phases(model):
    """Programs of several phases: never slower than reacting, which knows no phase that could be taken for another one."""
    for percent in dict.fromkeys(item.get("percent_of_stock_peak") for item in model["entries"]):
        at = targets.entries_at(model["entries"], percent)
        for name in targets.planned(at)[:1]:
            entry = at[name] if at[name].get("bit_identical") else {}
            yield targets.at_most(f"{model['model']} at {percent}%: step, to reactive", entry.get("ratio_to_reactive"), 1)
            yield targets.at_most(f"{model['model']} at {percent}%: written, to reactive", entry.get("written_to_reactive"), 1)


def wanted_of_all(models):
    """Of the three networks together."""
    if not {model["model"] for model in models} >= set(NETWORKS):
        return
    least = [entry["written_to_reactive"] for model in models for entry in model["entries"]
             if model["model"] in NETWORKS and "written_to_reactive" in entry and entry.get("bit_identical")]
    if any(targets.planned({entry["competitor"]: entry for entry in model["entries"]}) for model in models):
        yield targets.at_most("written, to reactive, on one network", min(least, default=None), WRITTEN_ON_ONE)


def inverse(ratio):
    return 1 / ratio if ratio else None
