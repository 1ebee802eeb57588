"""Offload of saved tensors on a side stream with a small stash, as torchtune publishes it (OffloadActivations:
use_pin_memory, use_streams, max_fwd_stash_size 5, min_offload_size 1024); written anew from its description.

Forward: every saved tensor that is no parameter is copied to pinned host memory beside the computation. The
source stays in a stash until its copy is over; the stash holds five, so before the sixth enters, the
computation waits for the oldest copy. Backward: what is still in the stash is handed back; the rest is copied
back when it is asked for, and the computation waits for that copy: there is no prefetch.
"""
from collections import OrderedDict

import torch

MAX_STASH = 5
MIN_BYTES = 1024


class StreamOffload:
    """A context for the forward pass: `with StreamOffload(lanes): output = model(inputs)`. One thread."""

    def __init__(self, lanes, max_stash=MAX_STASH, min_bytes=MIN_BYTES):
        self._lanes, self._max_stash, self._min_bytes = lanes, max_stash, min_bytes
        self._stash = OrderedDict()  # _Offloaded: (the source, the ticket of its copy out), oldest first
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

    def _unpack(self, packed):
        if isinstance(packed, torch.Tensor):
            return packed
        if packed in self._stash:
            return self._hand_back(packed)
        tensor = torch.empty(packed.host.shape, dtype=packed.host.dtype, device=packed.device)
        self._lanes.wait(self._lanes.copy(tensor, packed.host, "to_device"))
        self._lanes.host.give_back(packed.host)
        return tensor

    def _hand_back(self, entry):
        self.handed_back += 1
        source, ticket = self._stash.pop(entry)
        self._lanes.wait(ticket)
        self._lanes.host.give_back(entry.host)
        return source


class _Offloaded:
    __slots__ = ("host", "device")

    def __init__(self, host, device):
        self.host, self.device = host, device


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
