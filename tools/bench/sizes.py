"""Sizes as people write and read them: 1024-based, K M G T with or without iB, as everywhere in Terrace."""
import argparse
import re

UNITS = {"": 1, "B": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def parse_size(text):
    match = re.fullmatch(r"(\d+)([BKMGT]?)(?:iB)?", text)
    if not match or int(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; write it as 2G or 1536MiB")
    return int(match[1]) * UNITS[match[2]]


def format_size(size):
    if size is None:
        return "-"
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.2f} GiB"
