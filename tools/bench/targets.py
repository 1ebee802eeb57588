"""What a figure should be, and whether it is: a few entries of a document, a few lines of a table.

The same keys as the C++ benchmarks write (targets.h). A target whose figure is not known is missed, unless `met` says
otherwise: a baseline that did not finish leaves no figure and has lost.
"""


BASELINES = ("stock", "swap", "preload", "reactive")


def entries_at(entries, percent):
    """Of one limit, by competitor."""
    return {item["competitor"]: item for item in entries if item.get("percent_of_stock_peak") == percent}


def ours(at):
    """Of the competitors under one limit, those that are Terrace as it is meant to be used: without kernel swap, and without
    ways of forcing a part of it."""
    return [name for name in at if name not in ("stock", "swap", "preload") and not name.startswith(("compress ", "kept "))]


def planned(at):
    """Those that a policy plans for, where one that only reacts stands beside them."""
    return [name for name in ours(at) if name != "reactive"] if "reactive" in at else []


def judged(at):
    """The one that targets are for: the first that is planned for, else Terrace as it is; None where there is neither."""
    return next(iter([*planned(at), *(name for name in ours(at) if name not in BASELINES)]), None)


def at_most(name, value, target, met=None):
    return entry(name, value, target, True, value is not None and value <= target if met is None else met)


def at_least(name, value, target):
    return entry(name, value, target, False, value is not None and value >= target)


def entry(name, value, target, is_at_most, met):
    known = {} if value is None else {"value": value}
    return {"name": name, **known, "target": target, "at_most": is_at_most, "met": met}


def lines(targets):
    width = max(len(target["name"]) for target in targets)
    for target in targets:
        value = f"{target['value']:.4g}" if "value" in target else "-"
        yield (f"  {target['name']:{width}}  {value:>9}  wanted {'<=' if target['at_most'] else '>='} {target['target']:g}  "
               + ("met" if target["met"] else "MISSED"))
