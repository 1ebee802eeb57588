"""Sizes as people write and read them: 1024-based, K M G T with or without iB, as everywhere in Terrace."""
import argparse
import re

UNITS = {None: 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def parse_size(text):
    match = re.fullmatch(r"(\d+)(?:\.(\d+))?(?:([KMGT])(?:i?B)?|B)?", text, re.ASCII | re.IGNORECASE)
    unit = UNITS[match[3] and match[3].upper()] if match else 0
    part = (match[2] or "0")[:9] if match else "0"  # as liballoc/wire/size.h has it
    size = int(match[1]) * unit + int(part) * unit // 10**len(part) if match else 0
    if size == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; write it as 2G, 1.5g or 1536MiB")
    return size


def format_size(size):
    if size is None:
        return "-"
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.2f} GiB"
