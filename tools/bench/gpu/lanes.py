"""The two ways between device and host, for the contenders that are not Terrace: one interface on a GPU and on the
emulated device.

A copy runs in a lane of its own, behind what the program has computed so far, and gives a ticket; wait(ticket)
orders what the program computes from then on behind the copy. On CUDA a lane is a stream and the host never waits.
On the emulated device a lane is a thread that copies in turn and sleeps until the link of the set speed would have
been done; the processor is the device, so that waiting is the host's. A lane runs its copies one after another and
both lanes run at once, as a GPU's two copy engines do. Where the device lags the stream waits and not the host, which has
done by then what comes behind: the bytes are moved at once, and no time passes.
"""
import mmap
import queue
import threading
import time

import torch


class HostMemory:
    """Host tensors that are used again: pinned on CUDA; else mapped apart from PyTorch's allocator, because what
    that allocates counts as memory of the emulated device. Not for several threads."""

    def __init__(self, is_cuda):
        self._is_cuda = is_cuda
        self._free = {}

    def like(self, tensor):
        """Contiguous, of the tensor's type and shape, contents unknown."""
        if self._is_cuda:
            return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        size = tensor.numel() * tensor.element_size()
        kept = self._free.get(size)
        raw = kept.pop() if kept else torch.frombuffer(mmap.mmap(-1, size), dtype=torch.uint8)
        return raw.view(tensor.dtype).view(tensor.shape)

    def give_back(self, tensor):
        """PyTorch's own pinned allocator waits for the streams by itself; here the copies are over."""
        if not self._is_cuda:
            raw = tensor.view(-1).view(torch.uint8)
            self._free.setdefault(raw.numel(), []).append(raw)


class CudaLanes:
    host_is_ahead = True

    def __init__(self, place):
        self._device = torch.device(place.torch_device)
        self._streams = {way: torch.cuda.Stream(self._device) for way in ("to_host", "to_device")}
        self.host = HostMemory(is_cuda=True)

    def copy(self, to, source, way):
        stream = self._streams[way]
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):
            to.copy_(source, non_blocking=True)
            return stream.record_event()

    def fetch(self, host):
        """A copy back, behind nothing but the copies before it and reuse_behind(): its memory is the lane's own."""
        stream = self._streams["to_device"]
        with torch.cuda.stream(stream):
            return host.to(self._device, non_blocking=True), stream.record_event()

    def passed(self):
        """Where the computation is."""
        return torch.cuda.current_stream(self._device).record_event()

    def reuse_behind(self, event):
        """What fetch() gave and the computation used until then may be dropped."""
        self._streams["to_device"].wait_event(event)

    def wait(self, ticket):
        torch.cuda.current_stream(self._device).wait_event(ticket)

    def close(self):
        torch.cuda.synchronize(self._device)


class EmulatedLanes:
    host_is_ahead = False  # it computes

    def __init__(self, place):
        rates = {"to_host": place.to_host_bytes_per_second, "to_device": place.to_device_bytes_per_second}
        self._lanes = {way: _AheadLane() if place.lag_seconds else _PacedLane(rate, place.latency_seconds)
                       for way, rate in rates.items()}
        self.host = HostMemory(is_cuda=False)

    def copy(self, to, source, way):
        return self._lanes[way].copy(to, source)

    def fetch(self, host):
        tensor = torch.empty(host.shape, dtype=host.dtype)
        return tensor, self.copy(tensor, host, "to_device")

    def passed(self):
        return None

    def reuse_behind(self, event):
        pass

    def wait(self, ticket):
        ticket.wait()
        if ticket.error:
            raise ticket.error

    def close(self):
        for lane in self._lanes.values():
            lane.close()


class _Ticket(threading.Event):
    error = None


class _AheadLane:
    def copy(self, to, source):
        done = _Ticket()
        to.copy_(source)
        done.set()
        return done

    def close(self):
        pass


class _PacedLane:
    def __init__(self, bytes_per_second, latency_seconds):
        self._rate, self._latency = bytes_per_second, latency_seconds
        self._idle_at = 0.0
        self._work = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def copy(self, to, source):
        done = _Ticket()
        self._work.put((to.detach(), source.detach(), done))
        return done

    def _run(self):
        while (item := self._work.get()) is not None:
            to, source, done = item
            begin = max(time.monotonic(), self._idle_at)
            try:
                to.copy_(source)
            except RuntimeError as error:
                done.error = error
            self._idle_at = begin + self._latency + seconds_of(source, self._rate)
            time.sleep(max(0.0, self._idle_at - time.monotonic()))
            del item, to, source  # the source may be waiting to be freed
            done.set()

    def close(self):
        self._work.put(None)
        self._thread.join()


def seconds_of(tensor, bytes_per_second):
    return tensor.numel() * tensor.element_size() / bytes_per_second if bytes_per_second else 0.0


def open_lanes(place):
    return CudaLanes(place) if place.is_cuda else EmulatedLanes(place)
