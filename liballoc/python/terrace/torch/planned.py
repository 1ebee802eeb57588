"""A planned step, as the hooks take part in it: the engine is told of each tensor that could leave, and says in return
what is to leave now, what comes back, and for which memory is to be waited (terrace_gpu.h, "A planned step").

The memory is PyTorch's, and so what the engine plans is done here. Under a plan a tensor stays as it is saved, and leaves
when the plan says so; the stash, `keep_last` and `prefetch` are the heuristic's, and rest meanwhile. When a step is not
what the plan expected, what stayed for the plan's sake is the heuristic's at once.

Threads: whoever saves or asks for a tensor carries out the moves that are due. What comes back is begun under `restoring`
(inbound.py), as everything is.
"""
import ctypes
from itertools import islice

from ..library import (MOVE_DRIVE, MOVE_GIVE_UP, MOVE_IN, PLAN_DEPARTED, PLAN_FOLLOWS, PLAN_MOVES, Move)
from .errors import OffloadError
from .records import record_of

AT_ONCE = 32  # moves


class Planned:
    """`hooks` own it; what is kept of records are weak references, of this step."""

    __slots__ = ("follows", "_engine", "_outbound", "_records")

    def __init__(self, engine, outbound):
        self.follows = False  # the plan rules
        self._engine, self._outbound = engine, outbound
        self._records = {}  # weak references, by number; while the plan rules

    def saved(self, record):
        """Whether the plan rules: then the record stays, until carry_out() sends it away."""
        handle = self._engine.handle
        code = self._engine.library.plan_saved(handle, record.ordinal, record.nbytes) if handle is not None else 0
        self._look_at(code, record.hooks, in_backward=False)
        if not self.follows:
            return False
        self._records[record.ordinal] = record.reference
        return True

    def carry_out(self, hooks, in_backward):
        """Does what is due but for what comes back; that is returned, for bring()."""
        handle, coming = self._engine.handle, []
        moves = (Move * AT_ONCE)()
        while handle is not None:
            count = self._engine.library.plan_moves(handle, moves, AT_ONCE)
            for move in islice(moves, count):
                reference = self._records.get(move.number)
                record = reference and record_of(reference)
                if record is None or record.step != hooks.steps.ended:
                    continue
                if move.what == MOVE_IN:
                    coming.append(record)
                elif move.what == MOVE_GIVE_UP:
                    self._outbound.give_up(record, in_backward)
                else:
                    self._send(record, move.what)
            if count < AT_ONCE:
                return coming
        return coming

    def _send(self, record, what):
        if record.source is not None and not record.id and self._outbound.send(record) and what == MOVE_DRIVE:
            self._engine.library.plan_write(self._engine.handle, record.id)

    def wanted(self, record, stays):
        """`record` is asked for; what is due is done, and what is to come back behind it is returned."""
        handle, hooks = self._engine.handle, record.hooks
        if handle is None:
            return ()
        code = self._engine.library.plan_wanted(handle, record.ordinal, stays)
        self._look_at(code, hooks, in_backward=True)
        return self.carry_out(hooks, True) if code & PLAN_MOVES else ()

    def bring(self, records):
        """They start their way back; one that there is no room for comes when it is asked for."""
        for record in records:
            hooks = record.hooks
            with hooks.inbound.restoring:
                if record.buffer is not None or record.source is not None or record.changed_to is not None or not record.id:
                    continue
                try:
                    hooks.inbound.begin(record, hooks.stream())
                except (OffloadError, RuntimeError, MemoryError):
                    return
            hooks.counts.prefetched += 1

    def gone(self, record):
        """Its memory was let go of."""
        if self._engine.handle is not None and record.step == record.hooks.steps.ended:
            self._engine.library.plan_gone(self._engine.handle, record.ordinal)

    def back(self, record):
        """Memory was taken for its way back."""
        if self._engine.handle is not None and record.step == record.hooks.steps.ended:
            self._engine.library.plan_back(self._engine.handle, record.ordinal)

    def used(self, used, threshold, brim):
        """The device's memory was looked at. Too near the limit for a plan that does not know why: the step goes on
        without it."""
        handle = self._engine.handle
        if handle is None:
            return
        self._engine.library.plan_used(handle, used, threshold)
        if used > brim and self.follows and self._engine.library.plan_depart(handle) & PLAN_DEPARTED:
            self._leave_to_the_heuristic(in_backward=False)

    def end_step(self):
        self.follows = False
        self._records.clear()

    def _look_at(self, code, hooks, in_backward):
        self.follows = code > 0 and bool(code & PLAN_FOLLOWS)
        if code > 0 and code & PLAN_DEPARTED:
            self._leave_to_the_heuristic(in_backward or hooks.steps.fetching())

    def _leave_to_the_heuristic(self, in_backward):
        """It would have sent them away, or, where it knows a limit, would send them when memory is needed. In backward
        they are asked for soon."""
        self.follows = False
        references = list(self._records.values())
        self._records.clear()
        for reference in references:
            record = record_of(reference)
            if record is None or record.source is None or record.id or in_backward:
                continue
            if record.hooks.fit is not None:
                record.hooks.fit.hold(reference)
            else:
                self._outbound.spill(record)
