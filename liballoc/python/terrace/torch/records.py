"""What the hooks keep of a saved tensor: where its bytes are, and how a tensor of its shape is made of them.

A Record stands for bytes: a range of one storage at one version, stored once however many tensors and nodes of
the graph share it. The tensor that it was made of is packed as a Packed, other tensors of the same bytes as a View,
that and a geometry. The graph owns them, and when the last is gone the record's __del__ releases the engine's copy, so
that a graph that is dropped without a backward pass leaves nothing behind.

    graph node ───────────►┐
    graph node ──► View ───┴─► Packed ──► Record ──► source   (until its bytes have left; then None)
                                  ▲         │  └───► buffer   (from its fetch until each save was asked for once)
    tables ─ ─ weakly ─ ─ ─ ─ ─ ─ ┘         └──────► id       (the engine's copy)

Whoever finds a record without owning it, to share it for one, has a weak reference to the Packed, never to the Record:
while an object's __del__ runs, other threads still get it from its weak references, and would share what is about to be
released. A Packed has no __del__, so it is there with its record, or it is gone.

That two saved tensors have the same bytes is known where they have the same version counter, at the same version, and
lie in one storage. PyTorch shows a counter's number and not which counter it is: the number proves nothing between
tensors over one buffer (.data, set_(), flat buffers), each of which counts for itself. So a record remembers its root,
the tensor whose counter it was, and is shared among the root and the views of it (Tensor._base) alone. detach() has the
counter of its tensor, but does not say so: it is stored by itself.

Two storages are the same if their StorageImpl is. A record holds a weak reference to it, which keeps the address
from being given to another StorageImpl, so equal addresses are proof. The memory that the storage pointed to is
free to go: a weak reference does not keep that.

__del__ may run at any bytecode of any thread, whatever locks that thread holds. It therefore takes none: it
makes single operations of dictionaries (atomic under the interpreter lock) and calls the engine, which is
thread-safe.
"""
from weakref import ref

import torch

from .compat import storage_of
from .look import span_bytes

_free_weak_reference = torch.UntypedStorage._free_weak_ref
_from_weak_reference = torch.UntypedStorage._new_with_weak_ptr
_is_expired = torch.UntypedStorage._expired

ALIGNMENT = 512  # of what PyTorch's caching allocator gives: kernels may choose their way by alignment
NOWHERE = -1  # no stream's address


class Record:
    """`geometry` is that of the tensor it was made of: size, stride, offset in its storage, type, bits. `root`: weakly.

    Its bytes are those from `begin`, in the storage; what is stored begins at `start`, the same or a little before.
    bits: 1, the elements are to be conjugated, 2, negated, when they are read. `plain`: a buffer of that geometry
    has just the record's bytes, so that it can be handed out as it is. `pending`: saves not yet asked for.
    """

    __slots__ = ("hooks", "id", "key", "version", "root", "begin", "start", "nbytes", "source", "geometry", "plain",
                 "buffer", "buffer_weak", "buffer_stream", "arrived_on", "shared", "pending", "step", "ordinal",
                 "thread", "changed_to", "forgotten", "reference")

    def __init__(self, packed, hooks, geometry, version, root, begin, end, key):
        packed.record = self
        self.reference = ref(packed)
        self.hooks = hooks
        self.geometry = geometry
        self.version = version
        self.root = ref(root)
        self.begin = begin
        self.start = start = begin - begin % ALIGNMENT
        self.nbytes = end - start
        self.id = 0  # the engine gives numbers from 1
        self.source = self.buffer = self.buffer_weak = self.changed_to = None
        self.arrived_on = NOWHERE
        self.shared = self.forgotten = False
        self.pending = 1
        self.key = key

    def covers(self, begin, end):
        return self.begin <= begin and end <= self.start + self.nbytes

    def storage_is_alive(self):
        return not _is_expired(self.key)

    def take_buffer(self):
        """The restored bytes where they are still there: held, or alive in a tensor that was made of them."""
        if self.buffer is None and self.buffer_weak is not None:
            storage = _from_weak_reference(self.buffer_weak)
            if storage is not None:
                buffer = torch.empty(0, dtype=self.geometry[3] if self.plain else torch.uint8, device=storage.device)
                return buffer.set_(storage, 0, *self.geometry[:2]) if self.plain else buffer.set_(storage)
        return self.buffer

    def make_buffer(self, device):
        if self.plain:
            size, stride, _, dtype, _ = self.geometry
            return torch.empty_strided(size, stride, dtype=dtype, device=device)
        return torch.empty(self.nbytes, dtype=torch.uint8, device=device)

    def let_go_of_buffer(self):
        """Each save was asked for once: from now on the bytes live as long as somebody uses them."""
        if self.shared and self.buffer_weak is None:
            self.buffer_weak = storage_of(self.buffer)._weak_ref()
        self.buffer = None

    def forget_buffer_weak(self):
        weak, self.buffer_weak = self.buffer_weak, None
        if weak is not None:
            _free_weak_reference(weak)

    def __del__(self):
        try:
            key = self.key
        except AttributeError:
            return  # __init__ failed half way
        self.hooks.forget(self, key)
        if self.buffer_weak is not None:
            self.forget_buffer_weak()
        _free_weak_reference(key)


class Packed:
    """The saved tensor that a record was made of, and what keeps the record alive."""

    __slots__ = ("record", "__weakref__")


class View:
    """A saved tensor of a record that was made of another: of `geometry`."""

    __slots__ = ("packed", "record", "geometry")

    def __init__(self, packed, geometry):
        self.packed = packed
        self.record = packed.record
        self.geometry = geometry


def record_of(reference):
    """The record of a weak reference to a Packed; None once the graph has let go of it."""
    packed = reference()
    return None if packed is None else packed.record


def source_of(tensor):
    """What holds a tensor's memory, and knows its version, until its bytes have left."""
    # What needs no gradient has no grad_fn. A node that held its own output would hold itself.
    return tensor.detach() if tensor.requires_grad else tensor


def view_of(tensor, geometry, start=0):
    """A tensor of that geometry; the storage of `tensor` begins `start` bytes into the saved one's."""
    size, stride, offset, dtype, bits = geometry
    view = torch.empty(0, dtype=dtype, device=tensor.device)
    view.set_(storage_of(tensor), offset - start // view.element_size(), size, stride)
    if bits & 1:
        view = view.conj()
    return view._neg_view() if bits & 2 else view


def range_to_store(root, storage, begin, end):
    """For a view of `root` with gaps, as a chunk of a projection's columns: all of the root, where it spans half of it.

    What lies in the gaps is probably saved, too. A view without gaps, as a batch that is a slice of a data set, is
    stored by itself, so that nobody finds bytes in its record that were changed, by whatever counter, since it was saved.
    """
    if root.layout is not torch.strided or storage_of(root)._cdata != storage._cdata:  # root.data was set
        return begin, end
    itemsize = root.element_size()
    first = root.storage_offset() * itemsize
    last = first + span_bytes((root.size(), root.stride()), itemsize)
    if first <= begin and end <= last <= storage.nbytes() and 2 * (end - begin) >= last - first:
        return first, last
    return begin, end  # as_strided() reaches beyond the root, where other tensors may be
