"""The pair of hooks that PyTorch calls for each tensor that autograd saves: pack() as it is saved, unpack() when
backward asks for it. This is the hot path, some microseconds for each tensor, and thus plain.

What is left alone is packed as (detached tensor, version): PyTorch does not look for in-place changes of what has
hooks, so the hooks do, and raise what PyTorch would have raised. So they do for what is offloaded, until its bytes
have left (outbound.py).

Threads: pack() and unpack() run in any. What they share are dictionaries and deques, whose single operations are
atomic under the interpreter lock, and the locks of outbound.py and inbound.py. A record has a source, a copy, or both
until somebody chooses, under `choosing`.
"""
import threading

import torch

from . import compat
from .errors import OffloadError, describe
from .inbound import Inbound
from .look import look_for
from .memory import FreedMemory
from .outbound import Outbound
from .planned import Planned
from .policy import policy
from .records import Packed, Record, View, range_to_store, record_of, source_of, view_of
from .steps import Steps

_Tensor = torch.Tensor
_is_grad_enabled, _identity = torch.is_grad_enabled, threading.get_ident


class Counts:
    """Tensors: packed in all; of them left alone, shared with a record, or of a record of their own, that was kept
    or offloaded. Of the records: refused, spilled later, let go of behind their copy in the order of the stream, handed
    back before they had left, restored."""

    __slots__ = ("packed", "left_alone", "shared", "kept", "offloaded", "kept_when_full", "spilled", "left_in_order",
                 "handed_back", "restored", "prefetched", "changed_in_place")

    def __init__(self):
        for name in self.__slots__:
            setattr(self, name, 0)


class Backward:
    """A backward pass, as one thread takes part in it; `records` had been made before it."""

    __slots__ = ("ended", "records")

    def __init__(self, records):
        self.ended = False
        self.records = records


class OfThread(threading.local):
    """What a thread has of its own. The class has the default: to look for what is not there takes longer."""

    backward = None


class Hooks:
    """pack() and unpack() on one engine. `device` is the torch.device whose tensors are taken."""

    def __init__(self, engine, device, settings):
        self.engine, self.device = engine, device
        self.fit = None  # a Fit, where a limit is known
        self.watch = None  # a Watch, where it is still to be seen whether checkpoints' inputs are worth it
        self.freed = FreedMemory() if engine.device == "cpu" else None
        self.counts = Counts()
        self.steps = Steps(settings.keep_last)
        self.by_id = {}  # weak references to the Packed, of what the engine has a copy of
        self.outbound = Outbound(settings.on_full == "raise")
        self.planned = None if settings.policy == "heuristic" else Planned(engine, self.outbound)
        self.inbound = Inbound(device, settings.prefetch_bytes)
        self._by_storage = {}
        self._min_bytes = settings.min_bytes
        self._look = look_for(device, settings.min_bytes)
        self._look_at_small = look_for(device, 1)
        self._only_checkpoints = settings.only == "checkpoints"
        self._records = 0
        self._thread = OfThread()
        self._stream_index = device.index if device.type == "cuda" else None

    # ---- saving ---------------------------------------------------------------------------------------------

    def pack(self, tensor):
        counts = self.counts
        counts.packed += 1
        version = tensor._version
        if type(tensor) is _Tensor and self._may_take():
            seen, marked = self._look(tensor), False
            if policy.used or self._only_checkpoints:
                seen, marked = self._by_policy(tensor, seen)
            packed = None if seen is None else self._pack(tensor, version, seen, marked)
            if packed is not None:
                return packed
        counts.left_alone += 1
        return tensor.detach(), version

    def _may_take(self):
        """Whether what is saved now may be offloaded at all."""
        return not (self.engine.handle is None or compat.dispatch_modes()
                    or (self._thread.backward is not None and self._inside_backward())
                    or (self._stream_index is not None and compat.is_capturing()))

    def _inside_backward(self):
        """What a backward pass saves, to recompute a checkpoint, it needs at once."""
        backward = self._thread.backward
        if not backward.ended and compat.in_backward():
            return True
        self._thread.backward = None  # it has ended, by itself or by an exception
        return False

    def _by_policy(self, tensor, seen):
        """What look() says of a tensor that may leave, else None; and whether it was marked to."""
        if policy.marks:
            any_size = seen or self._look_at_small(tensor)
            mark = None if any_size is None else policy.of_storage(any_size[1])
            if mark is not None:
                return (any_size, True) if mark else (None, False)
        verdict = policy.of_block()
        if verdict is None and self._only_checkpoints and seen is not None:
            verdict = compat.is_input_of_checkpoint()
        return (None if verdict is False else seen), False

    def _pack(self, tensor, version, seen, marked):
        """A Packed or a View; None when the tensor is too small. `seen` is what look() says. `marked`: nothing but a lack
        of room keeps it."""
        root, storage, address, geometry, begin, end = seen
        reference = self._by_storage.get(storage._cdata)
        packed = None if reference is None else reference()
        record = None if packed is None else packed.record
        known = record is not None and record.version == version and record.root() is root and not record.forgotten
        if known and record.geometry == geometry:
            return self._share(record, packed)
        if known and record.covers(begin, end):
            return self._share(record, View(packed, geometry))
        plain = not geometry[4]
        if root is not tensor and tensor.numel() * tensor.element_size() < end - begin:
            own = begin, end
            begin, end = range_to_store(root, storage, begin, end)
            plain = plain and own == (begin, end)
        if begin == end or (end - begin < self._min_bytes and not marked):
            return None
        packed = Packed()
        record = Record(packed, self, geometry, version, root, begin, end, storage._weak_ref())
        record.plain = plain and record.start == begin
        self._keep_or_store(record, tensor, address + record.start, marked)
        self._by_storage[record.key] = record.reference  # complete: other threads may share it from now on
        return packed

    def _share(self, record, packed):
        self.counts.shared += 1
        record.pending += 1
        record.shared = True
        return packed

    def _keep_or_store(self, record, tensor, address, marked):
        self._records += 1
        nbytes, steps, fit = record.nbytes, self.steps, self.fit
        if self.watch is not None:
            self.watch.saved(nbytes)
        record.ordinal, keeps = steps.next(nbytes)
        if record.ordinal == 0:
            compat.not_to_be_compiled()
        record.step = steps.ended
        record.thread = _identity()
        planned = self.planned
        follows = planned is not None and planned.saved(record)
        if marked:
            self.outbound.store(record, address, tensor)
        elif follows:
            record.source = source_of(tensor)
            planned.bring(planned.carry_out(self, False))
        elif keeps or (self.watch is not None and self.watch.keeps(record.reference)):
            self.counts.kept += 1
            record.source = source_of(tensor)
        elif fit is not None and fit.keeps(nbytes):
            self.counts.kept += 1
            record.source = source_of(tensor)
            fit.hold(record.reference)
        else:
            self.outbound.store(record, address, tensor)
        if fit is not None:
            fit.saved(nbytes)
        if self.outbound.leaving:
            self.outbound.poll(False)
            if not follows:
                self.outbound.trim(steps.room_to_leave())

    # ---- bringing back --------------------------------------------------------------------------------------

    def unpack(self, packed):
        kind = type(packed)
        if kind is tuple:
            if self._thread.backward is None:  # a checkpoint may recompute before anything else is asked for
                self._enter_backward()
            return unpack_left_alone(packed)
        if compat.dispatch_modes() or compat.jit_trace():  # it would not see the engine fill memory
            with compat.unobserved():
                return self.unpack(packed)
        record = packed.record
        geometry = record.geometry if kind is Packed else packed.geometry
        if _is_grad_enabled() and compat.in_backward():
            raise OffloadError(f"{describe(geometry)} was offloaded and is asked for by a backward pass with "
                               "create_graph=True; double backward through offloaded tensors is not supported: run "
                               "that forward pass outside of terrace.torch.offload, or under terrace.torch.keep()")
        backward = self._thread.backward
        if backward is None or backward.ended or backward.records != self._records:
            self._enter_backward()
        source, coming = record.source, ()
        if self.planned is not None and record.step == self.steps.ended:
            coming = self.planned.wanted(record, source is None and record.storage_is_alive())
            source = record.source
        if source is not None:
            self._hand_back(record, source)  # for this thread; another may let go of it
            tensor = source if kind is Packed else view_of(source, geometry)
        else:
            buffer = self._restore(record)
            tensor = buffer if kind is Packed and record.plain else view_of(buffer, geometry, record.start)
        if coming:
            self.planned.bring(coming)
        if self.outbound.leaving:
            self.outbound.poll(True)
        return tensor

    def _hand_back(self, record, source):
        if source._version != record.version:
            self._raise_changed(record, source._version)
        if record.step == self.steps.ended:
            self.steps.fetched(record.ordinal, False)
            if self.watch is not None:
                self.watch.fetched(record.nbytes)
        if record.id and self.outbound.keep_source(record):
            self.counts.handed_back += 1

    def _restore(self, record):
        if record.changed_to is not None:
            self._raise_changed(record, record.changed_to)
        if record.step == self.steps.ended:
            self.steps.fetched(record.ordinal, record.storage_is_alive())
        self.counts.restored += 1
        return self.inbound.restore(record)

    def _raise_changed(self, record, version):
        self.counts.changed_in_place += 1
        size, _, _, dtype, _ = record.geometry
        raise_changed(torch.empty(0, dtype=dtype, device=self.device).type(), size, version, record.version)

    # ---- steps ----------------------------------------------------------------------------------------------

    def _enter_backward(self):
        backward = Backward(self._records)
        try:
            compat.at_backward_end(lambda: self._backward_ended(backward))
        except RuntimeError:
            return  # somebody looks at a saved tensor outside of any backward pass
        self._thread.backward = backward
        self._give_back_freed(self.steps.saved_bytes(), step_ends=False)
        if self.fit is not None:
            self.fit.look()

    def _give_back_freed(self, saved_bytes, step_ends):
        if self.freed is not None:
            self.freed.give_back(self.counts.offloaded, saved_bytes, step_ends)

    def _backward_ended(self, backward):
        backward.ended = True
        saved_bytes = self.steps.saved_bytes()
        if not self.steps.end():
            return
        self._tell_step_ended()
        with self.outbound.storing:
            handle = self.engine.handle
            if handle is not None and self.by_id:  # of a graph that outlives the step
                self.engine.library.next_step(handle)
            elif handle is not None:
                self.engine.library.end_step(handle)
        self._give_back_freed(saved_bytes, step_ends=True)

    def end_step(self):
        """What is still stored is forgotten, but for what has not left yet."""
        with self.inbound.restoring, self.outbound.storing:
            for record in self.records():
                with self.outbound.choosing:
                    record.forgotten = record.source is None
                    record.id = 0
            self.by_id.clear()
            if self.engine.handle is not None:
                self.engine.library.end_step(self.engine.handle)
        if self.steps.end():
            self._tell_step_ended()

    def _tell_step_ended(self):
        if self.planned is not None:
            self.planned.end_step()
        if self.fit is not None:
            self.fit.end_step()
        if self.watch is not None:
            self.watch.end_step()

    def records(self):
        """Those that the engine has a copy of."""
        return [record for record in map(record_of, self.by_id.copy().values()) if record is not None]

    def close(self):
        with self.inbound.restoring, self.outbound.storing:
            self.engine.close()

    # ---- what records ask for (any thread, no locks: see records.py) -----------------------------------------

    def stream(self):
        return None if self._stream_index is None else compat.raw_stream(self._stream_index)

    def release(self, number, stream):
        self.by_id.pop(number, None)
        handle = self.engine.handle
        if handle is not None:
            self.engine.library.release(handle, number, stream)

    def forget(self, record, key):
        """The record dies."""
        number = record.id
        if number:
            record.id = 0
            # A buffer goes back to the stream that it was made for, and may still be on its way: that one has to wait.
            self.release(number, self.stream() if record.buffer is None else record.buffer_stream)
        reference = self._by_storage.get(key)
        if reference is not None and reference() is None:  # its own, or of another that dies
            self._by_storage.pop(key, None)


def unpack(packed):
    """Of whichever pack()."""
    if type(packed) is tuple:
        return unpack_left_alone(packed)
    return packed.record.hooks.unpack(packed)


def unpack_left_alone(packed):
    tensor, version = packed
    if tensor._version != version:
        raise_changed(tensor.type(), tensor.size(), tensor._version, version)
    return tensor


def raise_changed(kind, size, version, expected):
    """What PyTorch raises where a saved tensor without hooks was changed."""
    raise RuntimeError(
        f"one of the variables needed for gradient computation has been modified by an inplace operation: [{kind} "
        f"{list(size)}] is at version {version}; expected version {expected} instead. Hint: enable anomaly detection "
        "to find the operation that failed to compute its gradient, with torch.autograd.set_detect_anomaly(True).")
