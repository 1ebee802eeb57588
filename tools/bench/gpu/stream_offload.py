"""Offload of saved tensors on a side stream with a small stash, as torchtune publishes it (OffloadActivations:
use_pin_memory, use_streams, max_fwd_stash_size 5, min_offload_size 1024); written anew from its description.

Forward: every saved tensor that is no parameter is copied to pinned host memory beside the computation. The
source stays in a stash until its copy is over; the stash holds five, so before the sixth enters, the
computation waits for the oldest copy. Backward: what is still in the stash is handed back; the rest is copied
back when it is asked for, and the computation waits for that copy.

That copy itself waits for the node before the previous one alone, whose tensors' memory it may be given: the host is
ahead of the GPU, so a node's tensors come while the previous node computes. Where the host is the device
(emulated) nobody is ahead, and the copy for the next node is begun as this one's are waited for: the newest of
what was saved before. That is one tensor ahead, where torchtune's order has one node's.
"""
from collections import OrderedDict

import torch

MAX_STASH = 5
MIN_BYTES = 1024

current_node = getattr(torch._C, "_current_autograd_node", lambda: None)  # None: each tensor is a node of its own


class StreamOffload:
    """A context for the forward pass: `with StreamOffload(lanes): output = model(inputs)`. One thread."""

    def __init__(self, lanes, max_stash=MAX_STASH, min_bytes=MIN_BYTES):
        self._lanes, self._max_stash, self._min_bytes = lanes, max_stash, min_bytes
        self._stash = OrderedDict()  # _Offloaded: (the source, the ticket of its copy out), oldest first
        self._away = OrderedDict()  # what left the stash, oldest first
        self._node, self._used, self._used_before = None, [], None
        self._hooks = None
        self.offloaded_bytes = self.handed_back = 0

    def __enter__(self):
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack)
        self._hooks.__enter__()
        return self

    def __exit__(self, *error):
        self._hooks.__exit__(*error)

    def end_step(self):
        """After the backward pass: what was never asked for leaves the stash."""
        while self._stash:
            self._drop_oldest()
        self._away.clear()  # of a graph without a backward pass
        for _ in range(2):
            self._leave_node(None)

    def _pack(self, tensor):
        if isinstance(tensor, torch.nn.Parameter) or tensor.numel() * tensor.element_size() < self._min_bytes:
            return tensor
        entry = _Offloaded(self._lanes.host.like(tensor), tensor.device)
        ticket = self._lanes.copy(entry.host, tensor.detach(), "to_host")
        self.offloaded_bytes += tensor.numel() * tensor.element_size()
        self._stash[entry] = (tensor.detach(), ticket)
        while len(self._stash) > self._max_stash:
            self._drop_oldest()
        return entry

    def _drop_oldest(self):
        entry, (_, ticket) = next(iter(self._stash.items()))
        self._lanes.wait(ticket)
        del self._stash[entry]
        self._away[entry] = True

    def _unpack(self, packed):
        if isinstance(packed, torch.Tensor):
            return packed
        if packed in self._stash:
            return self._hand_back(packed)
        node = current_node()
        if node is None or node is not self._node:
            self._leave_node(node)
        tensor, ticket = packed.coming or self._lanes.fetch(packed.host)
        packed.coming = None
        self._away.pop(packed, None)
        if not self._lanes.host_is_ahead:
            self._begin_next()
        self._lanes.wait(ticket)
        self._lanes.host.give_back(packed.host)
        self._used.append(tensor)
        return tensor

    def _begin_next(self):
        if self._away:
            entry = next(reversed(self._away))
            entry.coming = entry.coming or self._lanes.fetch(entry.host)

    def _leave_node(self, node):
        """What the node before the one that is left used may be used again, by copies that come behind it."""
        if self._used_before is not None:
            self._lanes.reuse_behind(self._used_before[0])
        self._used_before = (self._lanes.passed(), self._used) if self._used else None
        self._node, self._used = node, []

    def _hand_back(self, entry):
        self.handed_back += 1
        source, ticket = self._stash.pop(entry)
        self._lanes.wait(ticket)
        self._lanes.host.give_back(entry.host)
        return source


class _Offloaded:
    __slots__ = ("host", "device", "coming")

    def __init__(self, host, device):
        self.host, self.device, self.coming = host, device, None  # coming: (tensor, ticket) of a copy back


class BlockingOffload:
    """What torch.autograd.graph.save_on_cpu does, for the emulated device: every saved tensor, parameters too, is
    copied out when it is saved and back when it is asked for, and the computation waits for each copy."""

    def __init__(self, lanes):
        self._lanes = lanes
        self._hooks = None

    def __enter__(self):
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack)
        self._hooks.__enter__()
        return self

    def __exit__(self, *error):
        self._hooks.__exit__(*error)

    def _pack(self, tensor):
        host = self._lanes.host.like(tensor)
        self._lanes.wait(self._lanes.copy(host, tensor, "to_host"))
        return _Offloaded(host, tensor.device)

    def _unpack(self, packed):
        tensor = torch.empty(packed.host.shape, dtype=packed.host.dtype, device=packed.device)
        self._lanes.wait(self._lanes.copy(tensor, packed.host, "to_device"))
        self._lanes.host.give_back(packed.host)
        return tensor
