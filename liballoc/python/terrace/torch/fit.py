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
When it comes within a twentieth of the limit although enough is on its way out, the drive is behind: the program then
waits for it, as long as something leaves, since the next allocation might fail. A wait in vain is the step's last.
"""
from collections import deque
from time import monotonic, sleep

from .. import sizes
from .errors import say
from .records import record_of

LOOKS = 64
SLACK = 10
BRIM = 20
PATIENCE_S = 5.0  # without anything that leaves


class Fit:
    """`memory` is of memory.py; `records` gives the live ones, `spill(record)` starts one's way out, `let_go()` frees
    what has left and says whether something was freed, or None when nothing is on its way. `tell(used, threshold, brim)` is told
    of each look; None: nobody."""

    __slots__ = ("limit", "spilled", "_memory", "_threshold", "_stride", "_records", "_stored_bytes", "_spill", "_since",
                 "_held", "_peak", "_eager", "_eager_now", "_said", "_let_go", "_brim", "_waits", "_tell")

    def __init__(self, limit, memory, records, stored_bytes, spill, let_go=lambda: None, tell=None):
        self.limit = limit
        self._memory, self._records, self._stored_bytes, self._spill = memory, records, stored_bytes, spill
        self._threshold = limit - limit // SLACK
        self._brim = limit - limit // BRIM
        self._stride = limit // LOOKS
        self._let_go, self._waits, self._tell = let_go, True, tell
        self._held = deque()
        self._since = self._peak = self._eager = self._eager_now = 0
        self.spilled = 0  # tensors that had stayed at first
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
            if self.look() > self._brim and self._waits:
                self._wait()

    def look(self):
        """What is used, before anything has been done about it."""
        used = self._memory.used(self._stored_bytes())
        gone = leaving = 0
        for record in self._records():
            if record.source is None:
                gone += 0 if record.buffer is not None else record.nbytes
            elif record.id:
                leaving += record.nbytes
        self._peak = max(self._peak, used + gone)
        if self._tell is not None:
            self._tell(used, self._threshold, self._brim)
        self._make_room(used - leaving - self._threshold)
        return used

    def _wait(self):
        until = monotonic() + PATIENCE_S
        while self._memory.used(self._stored_bytes()) > self._brim:
            freed = self._let_go()
            if freed is None:
                return
            now = monotonic()
            if freed:
                until = now + PATIENCE_S
            elif now > until:
                self._waits = False
                return
            else:
                sleep(0.0005)

    def _make_room(self, excess):
        while excess > 0:
            try:
                record = record_of(self._held.popleft())
            except IndexError:  # none is left, maybe since another thread took the last
                return
            if record is not None and record.source is not None and not record.id and self._spill(record):
                excess -= record.nbytes
                self.spilled += 1

    def end_step(self):
        """Every tensor of the step was fetched."""
        self._held.clear()
        self._waits = True
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
            say(f"the job fits, it needs {need} of {limit}: saved tensors stay where they are (limit=None, "
                "with terrace run --offload-limit none, offloads them all the same)")
