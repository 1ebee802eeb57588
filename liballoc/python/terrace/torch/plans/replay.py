"""What a choice for each segment makes of a step: its peak of device memory and its time, without running it.

The step's marks (observe.py) are walked once with the choice. Two lanes, one each way, carry what leaves, one transfer after
another; the program waits as the engine makes it wait: for the oldest copy when the stash is full, and for a tensor that
is not back. A segment that is recomputed takes its forward pass's time once more, before its first saved tensor is used.

Then each block lives, on the axis of ticks, from its birth until nothing holds it:

    kept        birth ─────────────────────────────────────────► as it was seen
    away        birth ─► last use, or until it has left          ► fetch ─────► as it was seen
    recomputed  birth ─► last use                                  ► recomputed ► as it was seen
                (the segment's arguments are held until its backward pass is over)
"""
from __future__ import annotations

import itertools
from collections import deque
from dataclasses import dataclass, field

from ..steps import STASH_SHARE
from .observe import BEGIN, END, SAVED, WANTED

KEEP, OFFLOAD, COMPRESS, RECOMPUTE = range(4)
NAMES = ("keep", "offload", "compress", "recompute")
MIN_BYTES = 64 * 2**10  # smaller tensors stay


@dataclass(frozen=True)
class Way:
    """One direction: seconds for a tensor, for each of its bytes, and for each of those that are not zero."""

    seconds: float
    per_byte: float
    per_kept_byte: float = 0.0

    def takes(self, nbytes, zeros):
        return self.seconds + nbytes * (self.per_byte + self.per_kept_byte * (1 - zeros))


@dataclass(frozen=True)
class Link:
    """Out of the device's memory and back, as it is or compressed."""

    out: Way
    back: Way


@dataclass(frozen=True)
class Prediction:
    peak_bytes: int
    seconds: float
    waited_seconds: float
    away_bytes: int
    moving_seconds: dict[int, float]  # by kind: that its lanes are busy, waited for or not
    recomputed_seconds: float


@dataclass(frozen=True)
class Overheads:
    """Seconds beyond what lanes and computing take (calibrate.py): for each second that a kind's lanes are busy, and for each second that
    is computed again."""

    moving: dict[int, float] = field(default_factory=dict)
    recomputing: float = 0.0


class _Segment:
    """What the replay needs of a segment, whatever is chosen."""

    __slots__ = ("seconds", "wanted", "over", "transient_bytes", "saved")

    def __init__(self):
        self.seconds = 0.0
        self.wanted = None  # index of the mark that wants the first of its tensors
        self.over = 0       # tick at which its backward pass has ended
        self.transient_bytes = 0
        self.saved = {}     # block: tick at which the segment's backward pass has let go of it


class Replay:
    def __init__(self, step, links, recomputes=True):
        """`links`: {OFFLOAD: Link, COMPRESS: Link}; what is not in it cannot be chosen, nor recomputation without `recomputes`."""
        self.step, self.links, self._recomputes = step, links, recomputes
        self.overheads = Overheads()
        self._parts = [_Segment() for _ in step.segments]
        self._savers = {}  # block: {segment}
        self._saves = [None] * len(step.saved)
        self._look()
        self._plain = self._live(step.blocks)

    def options(self, number):
        """What can be chosen for a segment."""
        return [KEEP, *self.links, *([RECOMPUTE] if self._recomputes and self._parts[number].wanted is not None else [])]

    def kinds(self):
        """What can be chosen beside KEEP for some segment."""
        return [*self.links, *([RECOMPUTE] if self._recomputes else [])]

    def uniform(self, kind):
        """The choice of `kind` for every segment that can have it, KEEP for the others."""
        return tuple(kind if kind in self.options(number) else KEEP for number in range(len(self.step.segments)))

    def saved_by(self, number):
        """The blocks that a segment saves and its backward pass wants."""
        return self._parts[number].saved.keys()

    def recompute_seconds(self, number):
        return self._parts[number].seconds

    def saved_bytes(self, number):
        """Of what a segment alone saves, without its arguments."""
        arguments = self.step.inputs.get(number, ())
        return sum(self.step.blocks[block].nbytes for block in self._parts[number].saved if block not in arguments)

    # ---- what does not depend on the choice -----------------------------------------------------------------

    def _look(self):
        step, begun, spans = self.step, {}, {}
        for index, mark in enumerate(step.marks):
            for open_number in begun:
                self._parts[open_number].seconds += step.seconds[index]
            if mark.kind == BEGIN:
                begun[mark.value] = step.tick_of[index]
            elif mark.kind == END:
                spans[mark.value] = begun.pop(mark.value), step.tick_of[index]
        self._look_at_backward()
        for number, span in spans.items():
            self._parts[number].transient_bytes = self._transient(number, *span)

    def _look_at_backward(self):
        step = self.step
        births = sorted(block.born for block in step.blocks)
        wanted_ticks = [tick for mark, tick in zip(step.marks, step.tick_of) if mark.kind == WANTED]
        release_of = _releases(wanted_ticks, births, step.ticks)
        for index, mark in enumerate(step.marks):
            if mark.kind == SAVED and step.saved[mark.value] is not None:
                self._savers.setdefault(step.saved[mark.value], set()).add(mark.segment)
            if mark.kind != WANTED or mark.segment < 0:
                continue
            part, released = self._parts[mark.segment], release_of[step.tick_of[index]]
            part.wanted = index if part.wanted is None else part.wanted
            part.over = max(part.over, released)
            block = step.saved[mark.value]
            if block is not None:
                part.saved[block] = released
        self._end_with_the_plain_step()

    def _end_with_the_plain_step(self):
        """Whoever wants a block last lets go of it when the observed step did."""
        for block, segments in self._savers.items():
            ends = {number: self._parts[number].saved.get(block) for number in segments if number >= 0}
            last = max(filter(None, ends.values()), default=None)
            for number, end in ends.items():
                if end is not None and end == last and -1 not in segments:
                    self._parts[number].saved[block] = self.step.blocks[block].died

    def _transient(self, number, begin, end):
        """The most that the segment's forward pass takes beside what was there before."""
        saved, changes = self._parts[number].saved, [0] * (end - begin + 2)
        for block, each in enumerate(self.step.blocks):
            if begin <= each.born <= end:
                changes[each.born - begin] += each.nbytes
                died = end + 1 if block in saved else min(each.unheld, end + 1)
                changes[died - begin] -= each.nbytes
        return max(itertools.accumulate(changes))

    def _live(self, blocks):
        changes = [0] * (self.step.ticks + 1)
        for block in blocks:
            changes[block.born] += block.nbytes
            changes[block.died] -= block.nbytes
        return changes

    # ---- a choice -------------------------------------------------------------------------------------------

    def predict(self, choice):
        """`choice`: one of KEEP … for each segment."""
        walk = _Walk(self, choice)
        walk.run()
        changes = list(self._plain)
        extra = self._change(choice, walk, changes)
        most = live = 0
        for tick, change in enumerate(changes):
            live += change
            most = max(most, live + extra.get(tick, 0))
        return Prediction(self.step.base_bytes + most, self._with_overheads(walk), walk.waited, walk.away_bytes, walk.moving(), walk.recomputed)

    def _with_overheads(self, walk):
        overheads = self.overheads
        return walk.now + overheads.recomputing * walk.recomputed + sum(
            overheads.moving.get(kind, 0.0) * seconds for kind, seconds in walk.moving().items())

    def _change(self, choice, walk, changes):
        """Puts the lives under the choice into `changes`; {tick: bytes that a recomputation takes for itself}."""
        blocks, ticks, extra = self.step.blocks, self.step.tick_of, {}
        held = {}  # block: tick until which somebody holds it, of all that do not live as in the plain step
        for number, what in enumerate(choice):
            part = self._parts[number]
            if what != RECOMPUTE:
                continue
            again = ticks[part.wanted]
            extra[again] = max(extra.get(again, 0), part.transient_bytes)
            for block in self.step.inputs.get(number, ()):
                held[block] = max(held.get(block, 0), part.over)
        for block, segments in self._savers.items():
            each = blocks[block]
            kinds = {number: KEEP if number < 0 else choice[number] for number in segments}
            if all(kind == KEEP for kind in kinds.values()):
                self._move_end(changes, each, max(each.died, held.get(block, 0)))
                continue
            until = max(each.unheld, held.get(block, 0), walk.left.get(block, 0))
            for number, kind in kinds.items():
                if kind == KEEP:
                    until = max(until, each.died if number < 0 else self._parts[number].saved.get(block, each.unheld))
                elif kind == RECOMPUTE:
                    self._live_again(changes, each, ticks[self._parts[number].wanted] + 1, block, number)
            self._move_end(changes, each, until)
            fetched = walk.fetched.get(block)
            if fetched is not None:
                ends = [self._parts[number].saved.get(block, 0) for number, kind in kinds.items() if kind in (OFFLOAD, COMPRESS)]
                self._add(changes, each.nbytes, fetched, max(ends))
        for block, until in held.items():
            if block not in self._savers and until > blocks[block].died:
                self._move_end(changes, blocks[block], until)
        return extra

    def _live_again(self, changes, each, begin, block, number):
        if block not in self.step.inputs.get(number, ()):
            self._add(changes, each.nbytes, begin, self._parts[number].saved.get(block, 0))

    @staticmethod
    def _move_end(changes, block, until):
        changes[block.died] += block.nbytes
        changes[until] -= block.nbytes

    @staticmethod
    def _add(changes, nbytes, begin, end):
        if end > begin:
            changes[begin] += nbytes
            changes[end] -= nbytes


def _releases(wanted_ticks, births, end):
    """{tick of a want: tick at which what was wanted is let go of}: at the next want behind something that was computed, since
    a node of the graph may want several tensors in a row."""
    result, following, place = {}, end - 1, len(births) - 1
    later = end - 1
    for tick in reversed(wanted_ticks):
        while place >= 0 and births[place] > tick:
            place -= 1
        computed = place + 1 < len(births) and births[place + 1] < later
        following = later if computed else following
        result[tick] = following
        later = tick
    return result


class _Lane:
    """One direction of one session's link."""

    __slots__ = ("free_at", "busy")

    def __init__(self):
        self.free_at = self.busy = 0.0

    def add(self, now, seconds):
        self.free_at = max(self.free_at, now) + seconds
        self.busy += seconds
        return self.free_at


class _Session:
    """An engine: its stash, its lanes, and what it brings back ahead (terrace/torch/steps.py, prefetch.py)."""

    def __init__(self, link, stash_bytes):
        self.link, self.stash_bytes = link, stash_bytes
        self.out, self.back = _Lane(), _Lane()
        self.leaving = deque()  # (block, when)
        self.leaving_bytes = 0
        self.order = []         # blocks as they were saved
        self.arrives = {}       # block: when
        self.waiting_bytes = 0  # ahead of their use


class _Walk:
    def __init__(self, replay, choice):
        self._replay, self._choice, self._step = replay, choice, replay.step
        self.now = self.waited = self.recomputed = 0.0
        self.away_bytes = 0
        self.left, self.fetched = {}, {}  # block: tick
        self._sessions = {kind: _Session(link, self._stash(kind)) for kind, link in replay.links.items() if kind in choice}
        self._of_block = {}

    def _stash(self, kind):
        """Of what a session takes in a step."""
        blocks = {block for number, what in enumerate(self._choice) if what == kind for block in self._replay._parts[number].saved}
        sizes = [self._step.blocks[block].nbytes for block in blocks]
        return max(2 * max(sizes, default=0), sum(sizes) // STASH_SHARE)

    def run(self):
        choice, step = self._choice, self._step
        for index, mark in enumerate(step.marks):
            self.now += step.seconds[index]
            if mark.segment < 0:
                continue
            what = choice[mark.segment]
            if what == KEEP:
                continue
            if what == RECOMPUTE:
                if mark.kind == WANTED and index == self._replay._parts[mark.segment].wanted:
                    self.now += self._replay._parts[mark.segment].seconds
                    self.recomputed += self._replay._parts[mark.segment].seconds
            elif mark.kind == SAVED:
                self._save(self._sessions[what], step.saved[mark.value], step.tick_of[index])
            elif mark.kind == WANTED:
                self._want(self._sessions[what], step.saved[mark.value], step.tick_of[index])

    def moving(self):
        return {kind: session.out.busy + session.back.busy for kind, session in self._sessions.items()}

    def _wait_until(self, when):
        if when > self.now:
            self.waited += when - self.now
            self.now = when

    def _save(self, session, block, tick):
        if block is None or block in self._of_block or self._step.blocks[block].nbytes < MIN_BYTES:
            return
        nbytes, link = self._step.blocks[block].nbytes, session.link
        self._of_block[block] = session
        self.away_bytes += nbytes
        session.order.append(block)
        session.leaving.append((block, session.out.add(self.now, link.out.takes(nbytes, self._step.zeros.get(block, 0.0)))))
        session.leaving_bytes += nbytes
        while session.leaving and (session.leaving[0][1] <= self.now or session.leaving_bytes > session.stash_bytes):
            gone, when = session.leaving.popleft()
            self._wait_until(when)
            session.leaving_bytes -= self._step.blocks[gone].nbytes
            self.left[gone] = tick

    def _want(self, session, block, tick):
        if self._of_block.get(block) is not session:
            return
        while session.leaving and session.leaving[0][1] <= self.now:
            gone, _ = session.leaving.popleft()
            self.left[gone] = tick
        if block in self.fetched or block not in session.order:
            arrives = session.arrives.pop(block, None)
            if arrives is not None:
                self._wait_until(arrives)
                session.waiting_bytes -= self._step.blocks[block].nbytes
                self._ahead(session, block, tick)
            return
        if block not in self.left:  # it is handed back: it has never been away
            session.leaving = deque(entry for entry in session.leaving if entry[0] != block)
            self.left[block] = self._step.blocks[block].died
            session.order.remove(block)
            return
        self._bring(session, block, tick)
        self._wait_until(session.arrives.pop(block))
        self._ahead(session, block, tick)

    def _bring(self, session, block, tick):
        nbytes, link = self._step.blocks[block].nbytes, session.link
        session.arrives[block] = session.back.add(self.now, link.back.takes(nbytes, self._step.zeros.get(block, 0.0)))
        self.fetched[block] = tick

    def _ahead(self, session, block, tick):
        """What was saved before it comes back within the bound."""
        place = session.order.index(block)
        for other in reversed(session.order[:place]):
            if other in self.fetched:
                continue
            nbytes = self._step.blocks[other].nbytes
            if session.waiting_bytes + nbytes > session.stash_bytes // 2 or other not in self.left:
                return
            session.waiting_bytes += nbytes
            self._bring(session, other, tick)
