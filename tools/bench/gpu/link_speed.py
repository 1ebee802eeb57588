"""How fast the links are without Terrace: pinned copies of the same tensors, each way alone and both at once.

What the engine's copies are compared with. On CUDA from and to pinned memory on a stream for each way; on the
emulated device a memory copy in a thread for each way, held back to the set speed (lanes.py).
"""
import time

import torch

from lanes import open_lanes

WAYS = ("to_host", "to_device", "both")


def device_tensors(place, count, tensor_bytes):
    """Random bytes, drawn once: what never changes between two calls is what is measured."""
    source = torch.randint(0, 256, (tensor_bytes,), dtype=torch.uint8)
    return [source.to(place.torch_device) if place.is_cuda else source.clone() for _ in range(count)]


class LinkSpeed:
    """A context; rates in bytes a second of what both ways moved together."""

    def __init__(self, place, tensors):
        self._place, self._lanes = place, open_lanes(place)
        self._out, self._back = tensors, [torch.empty_like(tensor) for tensor in tensors]
        self._host = [self._lanes.host.like(tensor).fill_(1) for tensor in tensors]
        self._host_back = [self._lanes.host.like(tensor).fill_(2) for tensor in tensors]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._lanes.close()

    def rate(self, way):
        copies = self._to_host() * (way != "to_device") + self._to_device() * (way != "to_host")
        start = time.perf_counter()
        tickets = [self._lanes.copy(*copy) for copy in copies]
        for ticket in tickets:
            self._lanes.wait(ticket)
        settle(self._place)
        return sum(copy[1].numel() for copy in copies) / (time.perf_counter() - start)

    def _to_host(self):
        return [(host, tensor, "to_host") for host, tensor in zip(self._host, self._out)]

    def _to_device(self):
        return [(tensor, host, "to_device") for host, tensor in zip(self._host_back, self._back)]


def settle(place):
    """The host's clock is read when the device has done what it was given."""
    if place.is_cuda:
        torch.cuda.synchronize(place.index)
