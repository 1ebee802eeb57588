"""What a figure should be, and whether it is: a few entries of a document, a few lines of a table.

The same keys as the C++ benchmarks write (targets.h). A target whose figure is not known is missed, unless `met` says
otherwise: a baseline that did not finish leaves no figure and has lost.
"""


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
