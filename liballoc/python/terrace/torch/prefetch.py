"""Brings tensors back before backward asks for them, in the order that the engine expects, within a bound of bytes.

The bound is of device memory that holds what was not asked for yet; the tensor that was just asked for is not
among it. Without one it follows the step (Steps.ahead_bytes()): one large tensor comes while the one before is used, and
what comes early takes less than what backward has freed of the stash by then. The engine knows the order: that of the last step, and in the first the reverse of the saves.
"""
import ctypes

from .errors import OffloadError
from .records import record_of

AHEAD = 8  # tensors
BRIEF_BYTES = 64 * 2**10  # what the host copies for itself, the engine copies at once: nothing is won by more calls


class Prefetch:
    """Used by one thread at a time, the one that restores."""

    __slots__ = ("_bound", "_brief", "_numbers", "_pause", "_waiting")

    def __init__(self, device, bound):
        self._bound = bound  # None: the step's
        self._brief = BRIEF_BYTES if device.type == "cpu" else 0
        self._pause = 0  # so often nobody asks: nothing ahead was worth it
        self._numbers = (ctypes.c_uint64 * AHEAD)()
        self._waiting = {}  # number: bytes

    def behind(self, record):
        """`record` was fetched: what is expected after it starts its way back."""
        if self._bound == 0:
            return
        if self._pause:
            self._pause -= 1
            return
        waiting, by_id = self._waiting, record.hooks.by_id
        waiting.pop(record.id, None)
        if len(waiting) > AHEAD // 2:  # enough: the engine is asked for several at a time
            for number in [number for number in waiting if number not in by_id]:
                del waiting[number]
        else:
            bound = record.hooks.steps.ahead_bytes() if self._bound is None else self._bound
            self._ask(record, bound - sum(waiting.values()))
            if not waiting:
                self._pause = AHEAD // 2

    def _ask(self, record, room):
        hooks = record.hooks
        count = hooks.engine.library.expect(hooks.engine.handle, record.id, self._numbers, AHEAD)
        for number in self._numbers[:count]:
            reference = hooks.by_id.get(number)
            other = reference and record_of(reference)
            if other is None or other.buffer is not None or other.source is not None or other.changed_to is not None:
                continue
            if other.nbytes <= self._brief:
                continue
            room -= other.nbytes
            if room < 0 or not self._begin(other):
                return

    def _begin(self, record):
        hooks = record.hooks
        try:
            hooks.inbound.begin(record, hooks.stream())
        except (OffloadError, RuntimeError, MemoryError):
            return False  # no room on the device, or lost: said when it is asked for, if it ever is
        self._waiting[record.id] = record.nbytes
        hooks.counts.prefetched += 1
        return True
