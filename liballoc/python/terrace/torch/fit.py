"""Whether the job fits without any offload, and what has to go if it does not.

To store what would have fitted costs time and saves nothing, so with a limit known nothing is stored before it
has to be. The first step is watched: tensors stay where they are, and only when memory comes within a tenth of
the limit do the oldest begin to leave, those that backward needs last. At the end of the step the most that would
have been needed is known, and from then on the excess, and only that, leaves at once as it is saved, beside the
computation; the rest stays. Watching goes on, for steps that need more than the one before.

    limit ──────────────────────────────────────────
    nine tenths ─ ─ ─ ─ ─ ─ ─ ─ ╱▔▔▔▔╲ ─ ─ ─ ─ ─ ─   above: the excess
                    ╱▔▔▔▔▔▔▔▔▔▔▔      ▔▔▔▔╲
    ───────────────╱  forward      backward ╲───────

Memory is looked at each time another 1/64 of the limit was saved, since looking costs as much as a dozen saves.
"""
from collections import deque

from .. import sizes
from .errors import say

LOOKS = 64
SLACK = 10


class Fit:
    """`memory` is of memory.py; `records` gives the live ones, `spill(record)` starts one's way out."""

    __slots__ = ("limit", "_memory", "_threshold", "_stride", "_records", "_stored_bytes", "_spill", "_since",
                 "_held", "_peak", "_eager", "_eager_now", "_said")

    def __init__(self, limit, memory, records, stored_bytes, spill):
        self.limit = limit
        self._memory, self._records, self._stored_bytes, self._spill = memory, records, stored_bytes, spill
        self._threshold = limit - limit // SLACK
        self._stride = limit // LOOKS
        self._held = deque()
        self._since = self._peak = self._eager = self._eager_now = 0
        self._said = False

    def keeps(self, nbytes):
        """Whether a tensor that is saved now stays; looks at memory now and then."""
        if self._eager_now < self._eager:
            self._eager_now += nbytes
            return False
        return True

    def hold(self, reference):
        self._held.append(reference)

    def saved(self, nbytes):
        self._since += nbytes
        if self._since >= self._stride:
            self._since = 0
            self.look()

    def look(self):
        used = self._memory.used(self._stored_bytes())
        gone = leaving = 0
        for record in self._records():
            if record.source is None:
                gone += 0 if record.buffer is not None else record.nbytes
            elif record.id:
                leaving += record.nbytes
        self._peak = max(self._peak, used + gone)
        self._make_room(used - leaving - self._threshold)

    def _make_room(self, excess):
        while excess > 0 and self._held:
            record = self._held.popleft()()
            if record is not None and record.source is not None and not record.id and self._spill(record):
                excess -= record.nbytes

    def end_step(self):
        """Every tensor of the step was fetched."""
        self._held.clear()
        self._eager = max(0, self._peak - self._threshold)
        if self._peak and not self._said:
            self._said = True
            self._say()
        self._peak = self._eager_now = 0

    def _say(self):
        need, limit = sizes.text(self._peak), sizes.text(self.limit)
        if self._eager:
            say(f"the job needs {need}, nine tenths of the limit of {limit} are "
                f"{sizes.text(self._threshold)}: {sizes.text(self._eager)} of saved tensors leave in each step")
        else:
            say(f"the job fits, it needs {need} of {limit}: saved tensors stay where they are (limit=None "
                "offloads them all the same)")
