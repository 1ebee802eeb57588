"""The peak of device memory that a step takes.

On CUDA PyTorch's own statistics: allocated (tensors) and reserved (what the process holds of the GPU). On the
emulated device the tensors are host memory: the peak of live bytes over every allocation and free of PyTorch's CPU
allocator, as its profiler records them, from before the model was built. That counts what would be on the GPU and
nothing else: not the engine's host memory, which is mapped apart, and not Python's.
"""
import torch
from torch.autograd import profiler


class CudaMemory:
    def __init__(self, device):
        self._device = device

    def begin_step(self):
        torch.cuda.synchronize(self._device)
        torch.cuda.reset_peak_memory_stats(self._device)

    def end(self):
        torch.cuda.synchronize(self._device)
        return {"peak_allocated_bytes": torch.cuda.max_memory_allocated(self._device),
                "peak_reserved_bytes": torch.cuda.max_memory_reserved(self._device)}


class ProfiledMemory:
    """Profiles from construction to end(); the peak is that since begin_step()."""

    def __init__(self):
        self._profile = profiler.profile(profile_memory=True)
        self._profile.__enter__()

    def begin_step(self):
        with profiler.record_function("terrace-bench-step"):
            pass

    def end(self):
        self._profile.__exit__(None, None, None)
        events = self._profile.kineto_results.events()
        begin = max(moment(event) for event in events if event.name() == "terrace-bench-step")
        changes = [(moment(event), event.nbytes()) for event in events if event.name() == "[memory]"]
        return {"peak_allocated_bytes": peak_since(begin, changes)}


def moment(event):
    """Microseconds before PyTorch 2.5, nanoseconds since."""
    return event.start_ns() if hasattr(event, "start_ns") else event.start_us()


def peak_since(begin, changes):
    """`changes`: (time, bytes, negative when freed), in any order."""
    live = peak = 0
    for when, size in sorted(changes, key=lambda change: change[0]):
        live += size
        peak = max(peak, live) if when >= begin else live
    return peak


def open_memory(place):
    return CudaMemory(torch.device(place.torch_device)) if place.is_cuda else ProfiledMemory()
