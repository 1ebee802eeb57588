"""How much memory there is where the tensors live, and how much of it is taken.

On a GPU the driver and PyTorch's caching allocator say it. On an emulated device, and without a GPU, tensors are
host memory, and what the process has in anonymous pages is what counts: code and mapped files are not the job's.
"""
import ctypes
import os

import torch

from .. import sizes

PAGE = os.sysconf("SC_PAGE_SIZE")


def _meminfo_total():
    return PAGE * os.sysconf("SC_PHYS_PAGES")


def _cgroup_limits():
    """Limits of this process's memory cgroups, v2 and v1, the root's first."""
    try:
        with open("/proc/self/cgroup", encoding="ascii", errors="replace") as lines:
            groups = [line.strip().split(":", 2) for line in lines]
    except OSError:
        return
    for _, controllers, path in (group for group in groups if len(group) == 3):
        if controllers == "":
            base, name = "/sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            base, name = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        parts = [part for part in path.split("/") if part]
        for depth in range(len(parts) + 1):
            yield os.path.join(base, *parts[:depth], name)


def host_limit():
    """Bytes that this process may use of the host's memory: all of it, or its cgroups' limit."""
    limit = _meminfo_total()
    for file in _cgroup_limits():
        try:
            with open(file, encoding="ascii") as text:
                limit = min(limit, int(text.read()))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return limit


def anonymous_bytes():
    """What this process has resident that is in no file."""
    with open("/proc/self/statm", encoding="ascii") as text:
        _, resident, shared = map(int, text.read().split()[:3])
    return (resident - shared) * PAGE


def anonymous_peak_bytes():
    """The most that this process ever had resident, less what is resident of files now; 0 where the kernel does not say."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as lines:
        fields = dict(line.split(":", 1) for line in lines)
    kib = [int(fields.get(name, "0 kB").split()[0]) for name in ("VmHWM", "RssFile", "RssShmem")]
    return max(0, kib[0] - kib[1] - kib[2]) * 2**10


class FreedMemory:
    """Freed memory of the C library's heap, given back to the system where tensors lie there.

    What leaves is freed among what stays, and glibc gives back only what is free at the end of its heap: a third of what
    a step saves stayed resident between the pieces in use. Given back where the most has just been freed, as a forward
    pass ends and as its step does, and only in steps that save so much that it is worth some 40 ms each time.
    """

    WORTH_BYTES = 128 * 2**20  # saved in a step of which something was offloaded

    def __init__(self):
        self._trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it
        self._before = 0

    def give_back(self, offloaded, saved_bytes, step_ends):
        """`offloaded` tensors in all so far, `saved_bytes` in this step. Any thread."""
        worth = offloaded != self._before and saved_bytes >= self.WORTH_BYTES
        if step_ends:
            self._before = offloaded
        if worth and self._trim is not None:
            self._trim(0)


class CudaMemory:
    """One GPU: what the driver has given out, less what PyTorch has cached and may give to the next tensor."""

    def __init__(self, index):
        self._index = index

    def limit(self):
        total = torch.cuda.mem_get_info(self._index)[1]
        budget = os.environ.get("TERRACE_GPU_BUDGET")
        return min(total, sizes.parse_share(budget, total, "TERRACE_GPU_BUDGET")) if budget else total

    def used(self, stored_bytes):
        free, total = torch.cuda.mem_get_info(self._index)
        cached = torch.cuda.memory_reserved(self._index) - torch.cuda.memory_allocated(self._index)
        return total - free - cached

    def peak(self):
        """The most that PyTorch's tensors ever took, or since the program reset that count."""
        return torch.cuda.max_memory_allocated(self._index)


class HostMemory:
    """Tensors in host memory; what the engine itself took of it, `stored_bytes`, is not the tensors'."""

    def __init__(self, device, dram_bytes):
        self._device, self._dram_bytes = device, dram_bytes

    def limit(self):
        if self._device.startswith("emulated:"):
            return sizes.parse(self._device[len("emulated:"):].split(",")[0], "the emulated capacity")
        return max(0, host_limit() - self._dram_bytes)

    def used(self, stored_bytes):
        return max(0, anonymous_bytes() - stored_bytes)

    def peak(self):
        """The most that the process ever took, of what counts here."""
        return anonymous_peak_bytes()
