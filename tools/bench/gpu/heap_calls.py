#!/usr/bin/python3
"""What an allocation and its free cost, in a process of its own: PyTorch's caching allocator, or Terrace's heap in
its place (CUDAPluggableAllocator). CUDA only.

    heap_calls.py '{"place": "cuda", "allocator": "pytorch", "repeats": 2000}'
    heap_calls.py '{"place": "cuda", "allocator": "terrace", "library": "…/libterrace_gpu.so", "repeats": 2000}'

Both through torch.empty(), so that the same Python stands in front. In a steady state: the block was freed just
before. Also a mix of sizes with many blocks live, drawn from one seed. Prints one line of JSON: nanoseconds for a
pair of calls.
"""
import json
import random
import sys
import time
from pathlib import Path
from statistics import median

sys.path.append(str(Path(__file__).resolve().parents[1]))  # sizes.py

import torch

from place import parse_place

SIZES = (512, 64 << 10, 1 << 20, 20 << 20, 256 << 20)
TURNS = 9
MIXED = 512  # blocks live at once


def use_terrace(library):
    allocator = torch.cuda.memory.CUDAPluggableAllocator(library, "terrace_gpu_alloc", "terrace_gpu_free")
    torch.cuda.memory.change_current_allocator(allocator)


def same_size(device, size, repeats):
    for _ in range(repeats):
        torch.empty(size, dtype=torch.uint8, device=device)


def mixed_sizes(device, repeats):
    chance = random.Random(1)
    live = [None] * MIXED
    for _ in range(repeats):
        live[chance.randrange(MIXED)] = torch.empty(chance.choice(SIZES[:3]), dtype=torch.uint8, device=device)


def nanoseconds(action, repeats):
    """Median over the turns, of a pair of calls; the first turn warms up."""
    turns = []
    for _ in range(TURNS + 1):
        torch.cuda.synchronize()
        start = time.perf_counter_ns()
        action(repeats)
        turns.append((time.perf_counter_ns() - start) / repeats)
    return median(turns[1:])


def main():
    config = json.loads(sys.argv[1])
    try:
        if config["allocator"] == "terrace":
            use_terrace(config["library"])
        device = torch.device(parse_place(config["place"]).torch_device)
        result = {str(size): nanoseconds(lambda n: same_size(device, size, n), config["repeats"]) for size in SIZES}
        result["mixed"] = nanoseconds(lambda n: mixed_sizes(device, n), config["repeats"])
    except (RuntimeError, OSError, AttributeError) as error:
        result = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(result))
    return 1 if "error" in result else 0


if __name__ == "__main__":
    sys.exit(main())
