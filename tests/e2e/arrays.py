"""Works on 24 arrays of 16 MiB and prints what came out, so that two runs can be compared.

The arrays are used in rounds, so under a budget of 128 MiB most of them have been evicted when their turn
comes. With a number in EXPECT_EVICTED_BYTES the library must have evicted at least as much; with 0, nothing.
"""
import ctypes
import hashlib
import os
import sys

import numpy

ARRAYS, ELEMENTS, ROUNDS = 24, 2 << 20, 2

# struct terrace_statistics of liballoc/terrace.h: its size, then counters in this order.
COUNTERS = ("heap_live_bytes heap_peak_bytes resident_bytes resident_peak_bytes recycled_bytes staging_bytes "
            "stored_bytes budget_bytes allocations frees recycled_allocations evictions evicted_bytes").split()


def library_counters():
    library = ctypes.CDLL(None)
    if not hasattr(library, "terrace_get_statistics"):
        return None
    words = (ctypes.c_uint64 * (len(COUNTERS) + 1))(ctypes.sizeof(ctypes.c_uint64) * (len(COUNTERS) + 1))
    if library.terrace_get_statistics(ctypes.byref(words)) != 0:
        return None
    return dict(zip(COUNTERS, words[1:]))


def work():
    generator = numpy.random.default_rng(7)
    arrays = [generator.standard_normal(ELEMENTS) for _ in range(ARRAYS)]
    for turn in range(ROUNDS):
        for index, array in enumerate(arrays):
            array += numpy.roll(arrays[(index + 7 * turn) % ARRAYS], turn)
            digest = hashlib.sha256(array.tobytes()).hexdigest()
            print(turn, index, digest[:32])
        arrays[turn] = numpy.sort(arrays[turn])
    matrix = arrays[0][: 1 << 20].reshape(1024, 1024)
    print("product", hashlib.sha256((matrix @ matrix.T).tobytes()).hexdigest())


def check_counters():
    expected = os.environ.get("EXPECT_EVICTED_BYTES")
    counters = library_counters()
    if expected is None:
        return 0
    if counters is None:
        print("arrays.py: the library is not loaded", file=sys.stderr)
        return 1
    evicted = counters["evicted_bytes"]
    if (evicted >= int(expected) > 0) or (evicted == int(expected) == 0):
        return 0
    print(f"arrays.py: {evicted} bytes were evicted, expected {expected}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    work()
    sys.exit(check_counters())
