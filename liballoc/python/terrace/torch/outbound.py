"""The way out: a record's bytes are given to the engine, and its memory is let go of once they have left, or behind
their copy, in the order of the stream.

The host of a GPU is far ahead of it: a whole forward pass may be queued before the GPU reaches the second layer, and
whoever lets go only of what the host has seen leave lets go of nothing. So what is on its way out, the stash, is
bounded (steps.py), and when it is full the stream waits for the oldest copy, and the memory is let go of at once:
PyTorch gives it to work that is queued later, which runs behind that wait. The host waits for nothing. torchtune's
OffloadActivations does the same with a stash of five tensors; a stash of bytes holds two of those that matter, or
many small ones.

    host      │ save A, copy │ save B, copy │ save C, copy; wait(A); let go of A │ D, in A's memory │
    stream    │ A │ B │ C │ wait(A) │ D …
    copies        │ A out │ B out │ C out │

Until the copy is there the engine reads the memory beside the program, and a change under way must never end as a
wrong gradient. The version is therefore compared at the moment when the memory is let go; what changes later cannot
matter, the copy is complete. An operation raises the version after it wrote, so a thread might find the version
unchanged while another is still writing: only the thread that saved a tensor lets go of it, or one that runs a
backward pass, since then the former waits for it.

What the engine copies at once, small tensors on the host, has left when store() returns: none of this is needed.
"""
import errno
import threading
from collections import deque

import torch

from ..library import error_name
from .errors import OffloadError, describe, say
from .look import ELEMENTS
from .records import record_of, source_of, storage_of

_identity = threading.get_ident
STUCK = 4  # that cannot be queued to be copied yet: there is little sense in asking for more of them

_LARGER = "give the offload a larger budget, a directory on a drive with more room, or a larger min_bytes"
_LOCKING = ("host memory could not be page-locked: raise the limit of ulimit -l or LimitMEMLOCK=, the job's memory "
            "limit, or give the offload a smaller budget")
_REMEDIES = {errno.EAGAIN: _LOCKING, errno.EPERM: _LOCKING, errno.ENOMEM: _LOCKING}


class Outbound:
    """Its hooks are those of the record at hand: one that held them would be a cycle, and keep the engine with it."""

    __slots__ = ("leaving", "storing", "choosing", "_polling", "_raises_when_full", "_said_full",
                 "_entered_bytes", "_gone_bytes")

    def __init__(self, raises_when_full):
        self._raises_when_full = raises_when_full
        self._said_full = False
        self.leaving = deque()  # weak references and bytes, oldest first: the stash
        self._entered_bytes = 0  # in all; changed under `storing`
        self._gone_bytes = 0  # changed under `_polling`
        self.storing = threading.RLock()  # no step ends between a store and its entry in by_id
        self.choosing = threading.Lock()  # which of source and copy a record keeps; for moments, and not by __del__
        self._polling = threading.Lock()  # nobody waits for it

    def store(self, record, address, tensor):
        """Starts a record's way out; False when the engine refused it, and it stays where it is. `tensor`: what it
        is made of; the record takes hold of it if it has not left at once. None: the record holds it already."""
        hooks = record.hooks
        engine, stream = hooks.engine, hooks.stream()
        element, site = ELEMENTS[record.geometry[3]], (record.ordinal << 40 ^ record.nbytes) + 1 & 2**64 - 1
        with self.storing:
            code = engine.save(engine.handle, address, record.nbytes, element, site, stream)
            left = code >= 0 and code & 1
            if code >= 0:
                record.id = number = code >> 1
            if not left and tensor is not None:
                record.source = source_of(tensor)
            if code >= 0:
                hooks.by_id[number] = record.reference
                if record.source is not None:
                    self._entered_bytes += record.nbytes
                    self.leaving.append((record.reference, record.nbytes))
        if code < 0:
            self._refused(record, code)
            return False
        hooks.counts.offloaded += 1
        if left and hooks.planned is not None and tensor is not None:
            hooks.planned.gone(record)
        return True

    def spill(self, record):
        """Starts the way out of a record that was kept; False when it stays."""
        try:
            stored = self.store(record, storage_of(record.source).data_ptr() + record.start, None)
        except OffloadError:
            return False  # it was not to be stored when it was saved: nobody waits for an error
        record.hooks.counts.spilled += stored
        return stored

    def send(self, record):
        """Starts the way out of a record that a plan had kept; False when it stays."""
        try:
            return self.store(record, storage_of(record.source).data_ptr() + record.start, None)
        except OffloadError:
            return False  # its save has returned: nobody waits for an error

    def give_up(self, record, anyones):
        """Lets go of a record's memory now, behind its copy, if it is this thread's or `anyones`."""
        if record.source is not None and record.id and (anyones or record.thread == _identity()):
            self._let_go(record, True)

    def _refused(self, record, code):
        record.hooks.counts.kept_when_full += 1
        text = (f"{describe(record.geometry)} ({record.nbytes} bytes) cannot be stored, {error_name(code)}; "
                + _REMEDIES.get(-code, _LARGER))
        if self._raises_when_full:
            raise OffloadError(text + ", or let such tensors stay on the device with on_full='keep'")
        if not self._said_full:
            self._said_full = True
            say(f"{text}. It stays on the device, as will others; this is said once")

    def poll(self, anyones):
        """Lets go of the memory of what has left, oldest first; `anyones`: whichever thread saved it. OffloadError
        when something could not leave and on_full says so."""
        if not self._polling.acquire(False):
            return
        try:
            leaving, me = self.leaving, _identity()
            while leaving:
                record = record_of(leaving[0][0])
                if record is not None and record.source is not None and record.id:
                    if not (anyones or record.thread == me) or not self._let_go(record, False):
                        return
                self._gone_bytes += leaving.popleft()[1]
        finally:
            self._polling.release()

    def stashed_bytes(self):
        """Of memory that is taken though its copy is under way."""
        return self._entered_bytes - self._gone_bytes

    def trim(self, room):
        """Lets go of the oldest of this thread's, behind their copies in the stream, until the stash is within `room`
        bytes. OffloadError as poll()."""
        if self.stashed_bytes() <= room or not self._polling.acquire(False):
            return
        leaving, me, stuck = self.leaving, _identity(), []
        try:
            while leaving and len(stuck) < STUCK and self.stashed_bytes() > room:
                entry = leaving.popleft()
                stuck.append(entry)
                record = record_of(entry[0])
                if (record is None or record.source is None or not record.id
                        or (record.thread == me and self._let_go(record, True))):
                    self._gone_bytes += stuck.pop()[1]
        finally:
            leaving.extendleft(reversed(stuck))
            self._polling.release()

    def let_go(self):
        """Whether something of this thread's could be let go of; None when nothing is on its way."""
        before = len(self.leaving)
        if before == 0:
            return None
        self.trim(0)
        return len(self.leaving) < before

    def _let_go(self, record, in_order):
        """False while it cannot be: it has not left, or, `in_order`, no stream can wait for it yet."""
        hooks, number = record.hooks, record.id
        engine = hooks.engine
        if engine.handle is None or not number:
            return True
        if in_order:
            code = engine.library.leave(engine.handle, number, hooks.stream())
        else:
            code = engine.library.left(engine.handle, number)
        if code == 0:
            return False
        if code < 0:
            if self.keep_source(record):  # it is the only copy
                self._refused(record, code)
            return True
        with self.choosing:
            source = record.source
            if source is None or not record.id:
                return True  # it was handed back, and stays
            version = source._version
            if version != record.version:
                record.changed_to = version
            if in_order and hooks.device.type == "cuda":  # nothing where it is the stream that the memory belongs to
                source.record_stream(torch.cuda.current_stream(hooks.device))
            record.source = None
        hooks.counts.left_in_order += in_order
        if hooks.planned is not None:
            hooks.planned.gone(record)
        return True

    def keep_source(self, record):
        """The engine's copy is not needed any more. False when the source, or the copy, is gone already."""
        with self.choosing:
            number = record.id
            if not number or record.source is None:
                return False
            record.id = 0
        record.hooks.release(number, record.hooks.stream())
        return True
