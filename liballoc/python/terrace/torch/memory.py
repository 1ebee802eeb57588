"""How much memory there is where the tensors live, and how much of it is taken.

On a GPU the driver and PyTorch's caching allocator say it. On an emulated device, and without a GPU, tensors are
host memory, and what the process has in anonymous pages is what counts: code and mapped files are not the job's.
"""
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
