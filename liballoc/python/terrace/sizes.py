"""Sizes as people write them: "8GiB", "512M", 1048576. The rules are those of docs/environment.md.

Powers of 1024 throughout: K and KiB are the same, letters may be small, and nothing is clamped. What cannot be read is a
ValueError that says which value, of what, and what is accepted.
"""
import re

_UNITS = {None: 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SIZE = re.compile(r"(\d{0,19})(?:\.(\d*))?(?:([KMGT])(?:i?B)?|B)?", re.ASCII | re.IGNORECASE)
_MOST = 2**63 - 1  # what fits the C side's arithmetic


def parse(value, name):
    """The bytes that `value`, an int or a text, means; `name` is what an error calls it."""
    if isinstance(value, int) and not isinstance(value, bool):
        size = value
    else:
        match = _SIZE.fullmatch(value) if isinstance(value, str) else None
        if match is None or not (match[1] or match[2]):
            raise ValueError(f"{name}: {value!r} is not a size; write bytes, or 512M, 1.5G, 8GiB or 8GB (all powers of 1024)")
        unit = _UNITS[match[3] and match[3].upper()]
        part = (match[2] or "0")[:9]  # as wire/size.h has it
        size = int(match[1] or 0) * unit + int(part) * unit // 10**len(part)
    if not 0 <= size <= _MOST:
        raise ValueError(f"{name}: {value!r} is out of range; a size lies between 0 and {_MOST} bytes")
    return size


def parse_share(value, whole, name):
    """As parse(), or a percentage of `whole`: "60%", "60.5%"."""
    share = re.fullmatch(r"(\d{0,19})(?:\.(\d*))?%", value, re.ASCII)
    if share is None or not (share[1] or share[2]):
        return parse(value, name)
    billionths = int(share[1] or 0) * 10**9 + int((share[2] or "")[:9].ljust(9, "0"))  # as wire/size.h has it
    if not 0 < billionths <= 100 * 10**9:
        raise ValueError(f"{name}: {value!r} is not a percentage; write more than 0% and at most 100%")
    return whole * billionths // (100 * 10**9)


def text(size):
    """A size for people to read: three significant digits at least, "1.5 GiB"."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size} bytes" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
