"""What is wanted of training in a quarter of the memory that stock needs.

The skip connections of a U-Net live long: moving them away and back beside the arithmetic may cost a quarter of stock's
time. And every network's step is five times as fast as with kernel swap, wherever swap finishes at all: where all of its
runs were killed or ended there is nothing to compare, and the table says so.
"""
import targets

PERCENT = 25
STEP_TO_STOCK = {"unet": 1.25}
SWAP_TO_STEP = 5


def wanted(model):
    """`model`: an entry of the document. Terrace misses whatever it was wanted to do where its results differ."""
    at = {item["competitor"]: item for item in model["entries"] if item.get("percent_of_stock_peak") == PERCENT}
    if "terrace" not in at:
        return []
    name, place = model["model"], f"{model['model']} at {PERCENT}%"
    terrace = at["terrace"] if at["terrace"].get("bit_identical") else {}
    found = []
    if name in STEP_TO_STOCK:
        found.append(targets.at_most(f"{place}: step, to stock", terrace.get("ratio_to_stock"), STEP_TO_STOCK[name]))
    if at.get("swap", {}).get("bit_identical"):
        faster = inverse(terrace.get("ratio_to_swap"))
        found.append(targets.at_least(f"{place}: kernel swap's step, to ours", faster, SWAP_TO_STEP))
    return found


def inverse(ratio):
    return 1 / ratio if ratio else None
