"""Parameters and gradients that the library cannot reach in place, on a GPU or not contiguous, through host memory.

    stream of copies   │ in k+2 │ in k+3 │ out k-1 │ …
    library            │ update k │ update k+1 │

The library calls ready(i) before it needs update i and done(i) when it is through with it. Copies of the next
updates are under way by then, as many as fit into the staging (two of the largest at least). On a GPU all copies are
in a stream of their own, behind what the current stream has to do before, and the current stream waits for the last.
"""
import contextlib
import ctypes
import errno

import torch

from ... import library


def host_copy(tensor):
    """A contiguous copy in host memory, page-locked and under way where the tensor is a GPU's."""
    on_gpu = tensor.device.type == "cuda"
    copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=on_gpu)
    return copy.copy_(tensor.detach(), non_blocking=on_gpu)


class Streams:
    """The streams of copies, one for each GPU that has parameters; nothing on a CPU."""

    def __init__(self, parameters):
        self._streams = {p.device: torch.cuda.Stream(p.device) for p in parameters if p.device.type == "cuda"}
        for device, stream in self._streams.items():
            stream.wait_stream(torch.cuda.current_stream(device))

    def of(self, tensor):
        """A context in which copies from and to the tensor are queued."""
        stream = self._streams.get(tensor.device)
        return contextlib.nullcontext() if stream is None else torch.cuda.stream(stream)

    def mark(self, tensor):
        """An event behind what is queued for the tensor's device; None where copies are done at once."""
        stream = self._streams.get(tensor.device)
        return None if stream is None else stream.record_event()

    def join(self):
        """What is queued from now on comes behind the copies."""
        for device, stream in self._streams.items():
            torch.cuda.current_stream(device).wait_stream(stream)


class Staging:
    """The copies of one step. `error`: what went wrong in one of them, or None."""

    def __init__(self, planned, staging_bytes):
        self._parameters = [parameter for _, parameter, _ in planned]
        self._sizes = [p.numel() * (p.element_size() + p.grad.element_size()) for p in self._parameters]
        self._most = max(staging_bytes, 2 * max(self._sizes))
        self._streams = Streams(self._parameters)
        self._copies = {}  # index: (parameter's, gradient's, event)
        self._held = self._next = 0
        self._updates = self._flow = self.error = None

    def describe(self, updates, types):
        for update, parameter in zip(updates, self._parameters):
            update.gradient_type = types[parameter.grad.dtype]

    def flow(self, updates):
        self._updates = updates
        self._flow = library.OptimizerFlow(size=ctypes.sizeof(library.OptimizerFlow),
                                           ready=library.READY(self._ready), done=library.DONE(self._done))
        return self._flow

    def end(self):
        self._copies.clear()
        self._streams.join()

    def _start(self, index):
        parameter = self._parameters[index]
        with self._streams.of(parameter):
            self._copies[index] = host_copy(parameter), host_copy(parameter.grad), self._streams.mark(parameter)
        self._held += self._sizes[index]

    def _start_up_to(self, index):
        while self._next < len(self._sizes) and (self._next <= index or self._held + self._sizes[self._next] <= self._most):
            self._start(self._next)
            self._next += 1

    def _ready(self, _, index):
        try:
            self._start_up_to(index)
            parameter, gradient, event = self._copies[index]
            if event is not None:
                event.synchronize()
            self._updates[index].parameter, self._updates[index].gradient = parameter.data_ptr(), gradient.data_ptr()
            return 0
        except BaseException as error:  # noqa: BLE001, nothing may leave a callback; step() raises it
            self.error = error
            return errno.EIO

    def _done(self, _, index):
        try:
            parameter, (copy, _, _) = self._parameters[index], self._copies.pop(index)
            with self._streams.of(parameter):
                parameter.copy_(copy, non_blocking=True)
            self._held -= self._sizes[index]
        except BaseException as error:  # noqa: BLE001
            self.error = error
