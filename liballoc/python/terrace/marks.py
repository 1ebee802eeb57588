"""Where a program is in what it repeats, for the clock that Terrace keeps of a step (liballoc/terrace.h).

The library is the one that `terrace run` has loaded into this process. Without it there is nobody to tell, and mark()
does nothing, so that a program with marks runs anywhere.
"""
import ctypes
import errno
import os

MOST_BYTES = 63  # TERRACE_MARK_NAME_MAX


def mark(name=""):
    """Says that a step begins here or, with a name, that the program is at that point of its step.

    Once at the beginning of each step, by one thread; a name has at most 63 bytes in UTF-8. It takes well under a
    microsecond beside Python's own call, waits for nothing, and steers what leaves memory first, never results. Any
    thread. Raises ValueError for a longer name, and TypeError for what is no str.
    """
    if not isinstance(name, str):
        raise TypeError(f"mark: the name is a str, not {type(name).__name__}: {name!r}")
    encoded = name.encode("utf-8", "surrogatepass")
    if len(encoded) > MOST_BYTES:
        raise ValueError(f"mark: {name!r:.80} has {len(encoded)} bytes in UTF-8; use a name of at most {MOST_BYTES}")
    if b"\0" in encoded:
        raise ValueError(f"mark: {name!r} has a zero byte in it; use a name without one")
    code = _terrace_mark(encoded) if _terrace_mark is not None else 0
    if code not in (0, -errno.EAGAIN):  # EAGAIN: too many wait already, and one is lost
        raise OSError(-code, os.strerror(-code), "terrace_mark")


def _find():
    """terrace_mark() of the library that is loaded already, or None. It waits for nothing, so the interpreter stays locked."""
    try:
        function = ctypes.PyDLL(None).terrace_mark
    except (AttributeError, OSError):
        return None
    function.restype, function.argtypes = ctypes.c_int, [ctypes.c_char_p]
    return function


_terrace_mark = _find()
