#!/usr/bin/python3
"""What offload costs for each saved tensor: hooks, and hooks with the engine, beside none, no-op ones and save_on_cpu.

A chain of unary operations saves one tensor each, so the time of a step by the number of operations, less the same
without hooks, is the cost of a saved tensor. All contenders run in turn in each round; the median of the rounds
counts, in the thread that waits for it. Tensors are small: with large ones memory's speed would be measured.

no-op      PyTorch's saved_tensors_hooks with functions that do nothing: what PyTorch itself takes for any hooks
hooks      pack and unpack with an engine that does nothing: the Python part alone; a tensor has left when it is stored
"hooks, later"  so that it has left only when the hooks look again, as with a GPU
offload    the real engine on CPU tensors
emulated   the real engine on an emulated GPU
all of ours with each tensor restored, not handed back

    tools/bench/saved_tensors.py --json result.json
"""
import argparse
import json
import platform
import statistics
import sys
import time
from pathlib import Path

import torch

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "liballoc/python"))

import machine  # noqa: E402
import terrace.torch  # noqa: E402
from terrace import library  # noqa: E402


class Nothing:
    """terrace_gpu.h without an engine behind it: everything succeeds at once."""

    file = "nothing"

    def __init__(self, leaves_at_once):
        self.leaves_at_once = leaves_at_once
        self.number = 0

    def open(self, config, handle, reason, reason_bytes):
        handle._obj.value = 1
        return 0

    def path(self, handle):
        return b"nothing"

    def warning(self, handle):
        return b""

    def store(self, handle, tensor, stream, number):
        self.number += 1
        number.contents.value = self.number
        return 0

    def store_left(self, handle, tensor, stream, number):
        return self.store(handle, tensor, stream, number) or self.leaves_at_once

    def left(self, handle, number):
        return 1

    def fetch(self, handle, number, to, stream):
        return 0

    fetch_arrive = fetch

    def end_step(self, handle):
        return 0

    next_step = end_step

    def expect(self, handle, number, out, count):
        return 0

    def close(self, handle):
        return None

    def get_statistics(self, handle, out):
        return 0

    arrive = release = lambda self, *arguments: 0


def session(loaded, prefetch, device="cpu"):
    library._library = loaded
    made = terrace.torch.offload(budget="512M", device=device, min_bytes=1, limit=None, keep_last=0, compress="off",
                                 prefetch=prefetch)
    library._library = None
    return made


def chain(x, tensors):
    out = x.clone()
    for _ in range(tensors):
        out = out.exp()
    return out.sum()


def step(hooks, x, tensors):
    """Seconds of forward and of backward."""
    begin = time.perf_counter()
    if hooks is None:
        loss = chain(x, tensors)
    else:
        with hooks:
            loss = chain(x, tensors)
    middle = time.perf_counter()
    loss.backward()
    return middle - begin, time.perf_counter() - middle


def measure(contenders, elements, tensors, rounds):
    """Microseconds for each tensor, by contender: forward and backward, in each round."""
    x = torch.zeros(elements).requires_grad_()
    times = {name: ([], []) for name in contenders}
    for number in range(rounds + 2):
        for name, hooks in contenders.items():
            for passed, taken in zip(times[name], step(hooks, x, tensors)):
                if number >= 2:  # the first two warm up
                    passed.append(taken / tensors * 1e6)
    return {name: tuple(statistics.median(passed) for passed in both) for name, both in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--elements", type=int, default=64, help="put so many floats into each tensor")
    parser.add_argument("--tensors", type=int, default=500, help="save so many tensors in each step")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    contenders = {"none": None, "no-op": torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t),
                  "save_on_cpu": torch.autograd.graph.save_on_cpu(), "hooks": session(Nothing(1), 0),
                  "hooks, later": session(Nothing(0), 0)}
    try:
        contenders["offload"] = session(library.load(), "64M")
        contenders["emulated"] = session(library.load(), "64M", "emulated:1G")
    except library.LibraryError as error:
        print(f"without the engine: {error.strerror}", file=sys.stderr)
    times = measure(contenders, options.elements, options.tensors, options.rounds)
    report(times, options)


def report(times, options):
    forward, backward = times["none"]
    rows = {name: {"forward_us": one, "backward_us": other, "overhead_us": one - forward + other - backward}
            for name, (one, other) in times.items()}
    for name, row in rows.items():
        print(f"{name:12} forward {row['forward_us']:7.2f} us, backward {row['backward_us']:7.2f} us, "
              f"over none {row['overhead_us']:7.2f} us for each tensor")
    if options.json:
        result = {"command": f"tools/bench/saved_tensors.py --elements {options.elements} --tensors {options.tensors}"
                             f" --rounds {options.rounds}",
                  "commit": machine.commit(SOURCE), "machine": machine.describe("/tmp"), "torch": torch.__version__, "python": platform.python_version(), "elements": options.elements,
                  "tensors": options.tensors, "rounds": options.rounds, "contenders": rows}
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
