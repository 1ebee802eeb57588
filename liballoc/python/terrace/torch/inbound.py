"""The way back: memory for a record's bytes, their fetch, and what is said when they are lost.

One thread at a time restores, since two nodes of a graph that run on two threads may share a record. The restored
bytes are held until each save of them was asked for once, and shared from then on while somebody uses them.
"""
import threading

import torch

from ..library import error_name
from .errors import OffloadError, describe
from .prefetch import Prefetch
from .records import NOWHERE


class Inbound:
    """Its hooks are those of the record at hand, as Outbound's are."""

    __slots__ = ("restoring", "_prefetch")

    def __init__(self, device, prefetch_bytes):
        self.restoring = threading.RLock()
        self._prefetch = Prefetch(device, prefetch_bytes)

    def restore(self, record):
        """The tensor that has a record's bytes in its storage, once the current stream may use it."""
        with self.restoring:
            stream = record.hooks.stream()
            buffer = record.buffer if record.buffer_weak is None else record.take_buffer()
            if buffer is None:
                buffer = self._bring(record, stream)
            else:
                record.buffer = buffer
                if record.arrived_on != stream:
                    self._arrive(record, stream)
            record.pending -= 1
            if record.pending <= 0:
                record.let_go_of_buffer()
            if record.hooks.planned is None or not record.hooks.planned.follows:
                self._prefetch.behind(record)
        return buffer

    def begin(self, record, stream):
        """A record's bytes are on their way to its buffer from now on, for `stream`. `restoring` is held."""
        self._fill(record, stream, record.hooks.engine.library.fetch, NOWHERE)

    def _bring(self, record, stream):
        return self._fill(record, stream, record.hooks.engine.library.fetch_arrive, stream)

    def _fill(self, record, stream, fetch, arrived_on):
        hooks = record.hooks
        handle = hooks.engine.handle
        if handle is None or not record.id:
            self._raise_without_copy(record)
        buffer = record.make_buffer(hooks.device)
        code = fetch(handle, record.id, buffer.data_ptr(), stream)
        if code != 0:
            self._raise_lost(record, code)
        if hooks.planned is not None:
            hooks.planned.back(record)
        if record.buffer_weak is not None:
            record.forget_buffer_weak()
        record.buffer, record.buffer_stream, record.arrived_on = buffer, stream, arrived_on
        return buffer

    def _arrive(self, record, stream):
        engine = record.hooks.engine
        code = engine.library.arrive(engine.handle, record.id, stream)
        if code != 0:
            record.buffer = None
            self._raise_lost(record, code)
        if stream != record.buffer_stream:
            record.buffer.record_stream(torch.cuda.current_stream(record.hooks.device))
        record.arrived_on = stream

    def _raise_without_copy(self, record):
        engine, text = record.hooks.engine, f"{describe(record.geometry)} was offloaded and "
        if engine.handle is None:
            raise OffloadError(f"{text}cannot be brought back: its engine {engine.gone_because}; run backward before "
                               "that")
        raise OffloadError(f"{text}forgotten when step() ended its step; call step() after the last backward pass of "
                           "a step")

    @staticmethod
    def _raise_lost(record, code):
        raise OffloadError(f"{describe(record.geometry)} was offloaded and cannot be brought back, "
                           f"{error_name(code)}; its stored bytes are lost and were not used: go back to the last "
                           "checkpoint, and check the drive and the memory (terrace doctor)")
