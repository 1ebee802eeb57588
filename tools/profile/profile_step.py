#!/usr/bin/python3
"""One training step of any torch.nn.Module as a trace for `terrace plan`: docs/formats/trace.md.

    profile_step.py --model torchvision:resnet18 --batch 8 --out trace.json.gz
    profile_step.py --model mypackage.module:build --shape 128,768 --out trace.json.gz
    profile_step.py --model torchvision:resnet18 --variants --out trace.json.gz

    from profile_step import profile
    trace = profile(module, (images,), lambda output: cross_entropy(output, labels), optimizer)

The step runs several times: to warm up, for the structure (who reads and writes which storage and how long it
lives), for what autograd saves, for the allocator's events (workspaces), and for the times (the median of
--steps). Operators that are called below Python count as their caller's. A storage that Python holds beyond its last
use is named once more by an operation "release" without time, so that lives in the trace are those of the run. Time
that passes on a CPU where no operator runs is an operation "between operators" without tensors.
"""
import argparse
import gzip
import importlib
import json
import statistics
import sys
import time

import torch

import step_memory
import step_variants
from step_modes import MarkerMode, Storages, StructureMode, TimingMode, check_same, op_name, overheads_us, tensors_in

SHORTEST_GAP_US = 20.0


def run_step(module, inputs, loss, optimizer, phase=lambda name: None):
    phase("forward")
    value = loss(module(*inputs))
    phase("backward")
    value.backward()
    del value
    phase("optimizer")
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def add_existing(storages, module, inputs, optimizer):
    """What lives before the step and after it."""
    for kind, tensors in (("weight", list(module.parameters()) + list(module.buffers())), ("input", inputs),
                          ("optimizer", [list(state.values()) for state in optimizer.state.values()])):
        for tensor in tensors_in(tensors):
            storages.id_of(tensor, kind, persistent=True)


def structure(module, inputs, loss, optimizer, device, around=None):
    storages = Storages(device)
    add_existing(storages, module, inputs, optimizer)
    mode = StructureMode(storages)
    step = lambda: run_step(module, inputs, loss, optimizer, lambda name: setattr(mode, "phase", name))
    with mode:
        around(step, mode) if around else step()
    storages.sweep(len(mode.ops) - 1)
    return storages, mode.ops


def saved_ids(module, inputs, loss, optimizer, device):
    """Ids of the storages that autograd saves for the backward pass, and the sizes of all storages. A pass of its own:
    hooks lengthen lives, and with them autograd detaches at other places. Storages are made in the same order."""
    saved = set()

    def around(step, mode):
        def pack(tensor):
            saved.add(mode.storages.id_of(tensor, "activation"))
            with torch.utils._mode_utils.no_dispatch():
                return tensor.detach()

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            step()

    storages, _ = structure(module, inputs, loss, optimizer, device, around)
    return {i for i in saved if i is not None}, [t["bytes"] for t in storages.tensors]


def fill_workspaces(ops, storages, step, device):
    marker = MarkerMode()

    def marked():
        with marker:
            step()

    events = step_memory.allocations(marked, device)
    if marker.count != len(ops):
        raise ValueError("the step runs other operators each time; a trace of one step would not describe it")
    born, new_bytes = set(t["id"] for t in storages.tensors if t["persistent"]), []
    for op in ops:
        new = [i for i in op["outputs"] if i not in born]
        born.update(op["inputs"], op["outputs"])
        new_bytes.append(sum(storages.tensors[i]["bytes"] for i in new))
    for op, extra in zip(ops, step_memory.workspaces(events, len(ops), new_bytes)):
        op["workspace_bytes"] = extra


def wall_ms(step, device):
    begin = time.perf_counter()
    step()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - begin) * 1000


def fill_times(ops, step, steps, device, plain_ms):
    """Times of the operators and, on a CPU, of what lies between them: medians over the steps, each less what measuring
    it cost. Returns the gaps, one more than operators."""
    on_gpu = device.type == "cuda"
    within, between = (0, 0) if on_gpu else overheads_us()
    times, gaps = [], []
    for _ in range(steps):
        if plain_ms is not None:
            plain_ms.append(wall_ms(step, device))
        mode = TimingMode(on_gpu)
        begin = time.perf_counter_ns()
        with mode:
            step()
        end = time.perf_counter_ns()
        check_same(ops, [op_name(func) for func in mode.names])
        times.append(mode.times_us())
        gaps.append([0] * (len(ops) + 1) if on_gpu else mode.gaps_us(begin, end))
    for op, samples in zip(ops, zip(*times)):
        op["time_us"] = round(max(0.0, statistics.median(samples) - within), 3)
    return [round(max(0.0, statistics.median(samples) - between), 3) for samples in zip(*gaps)]


def pseudo(name, time_us, inputs):
    return {"name": name, "time_us": time_us, "inputs": inputs, "outputs": [], "workspace_bytes": 0, "recomputable": False}


def between(time_us):
    """Shorter gaps are not worth an operation: they are within what the clock and the modes' overhead leave open."""
    return [pseudo("between operators", time_us, [])] if time_us >= SHORTEST_GAP_US else []


def with_releases(ops, storages, gaps):
    """Adds what is no operator: releases of storages that are held beyond their last use, and time that passes where no
    operator runs (Python, autograd, the allocator giving memory back)."""
    last_use = {}
    for index, op in enumerate(ops):
        for i in op["inputs"] + op["outputs"]:
            last_use[i] = index
    held = {}
    for tensor in storages.tensors:
        died = storages.died_after[tensor["id"]]
        died = len(ops) - 1 if died is None else died
        if not tensor["persistent"] and tensor["id"] in last_use and died > last_use[tensor["id"]]:
            held.setdefault(died, []).append(tensor["id"])
    result = between(gaps[0])
    for index, op in enumerate(ops):
        result.append(op)
        if index in held:
            result.append(pseudo("release", 0.0, held[index]))
        result += between(gaps[index + 1])
    return result


def profile(module, inputs, loss, optimizer, steps=5, warm_up=2, name="", times=True, plain_ms=None, variants=0):
    """The trace of one step, a dictionary in the form of docs/formats/trace.md. `loss` makes a scalar from the module's
    output. The step runs warm_up + 3 + steps times and changes the module, as training does. A list as plain_ms gets the
    wall time of a step that nobody watches before each timed one, so that both see the same machine. With `variants` each
    convolution is also run in its other ways, so many times each (step_variants.py)."""
    device = next(module.parameters()).device
    step = lambda: run_step(module, inputs, loss, optimizer)
    for _ in range(warm_up):
        step()
    saved, sizes = saved_ids(module, inputs, loss, optimizer, device)
    storages, ops = structure(module, inputs, loss, optimizer, device)
    if sizes != [t["bytes"] for t in storages.tensors]:
        raise ValueError("the step makes other tensors each time; a trace of one step would not describe it")
    fill_workspaces(ops, storages, step, device)
    gaps = fill_times(ops, step, steps, device, plain_ms) if times else [0] * (len(ops) + 1)
    if variants:
        step_variants.fill_variants(ops, step, variants)
    for i in saved:
        storages.tensors[i]["saved"] = not storages.tensors[i]["persistent"]
    ops = with_releases(ops, storages, gaps)
    named = {i for op in ops for i in op["inputs"] + op["outputs"]}
    return {"format": "terrace-trace", "version": 1, "name": name or type(module).__name__,
            "source": f"PyTorch {torch.__version__}, {device.type}", "ops": ops,
            "tensors": [t for t in storages.tensors if t["persistent"] or t["id"] in named]}


def write(trace, path):
    """One line an operation and a tensor; packed if the name ends with .gz."""
    head = {key: trace[key] for key in ("format", "version", "name", "source")}
    lists = [f'"{key}":[\n' + ",\n".join(json.dumps(item) for item in trace[key]) + "]" for key in ("ops", "tensors")]
    text = json.dumps(head)[:-1] + ",\n" + ",\n".join(lists) + "}\n"
    with (gzip.open if str(path).endswith(".gz") else open)(path, "wt", encoding="utf-8") as file:
        file.write(text)


def peak_bytes(trace):
    """The most that lives at once, (all of it, without what is persistent)."""
    sizes = {t["id"]: t["bytes"] for t in trace["tensors"]}
    persistent = {t["id"] for t in trace["tensors"] if t["persistent"]}
    first, last = {}, {}
    for index, op in enumerate(trace["ops"]):
        for i in op["inputs"] + op["outputs"]:
            if i not in persistent:
                first.setdefault(i, index)
                last[i] = index
    changes = [0] * (len(trace["ops"]) + 1)
    for i, index in first.items():
        changes[index] += sizes[i]
        changes[last[i] + 1] -= sizes[i]
    live = most = 0
    for op, change in zip(trace["ops"], changes):
        live += change
        most = max(most, live + op["workspace_bytes"])
    return most + sum(sizes[i] for i in persistent), most


def build(model, batch, shape, device):
    """A module by name, an input for it, a loss and an optimizer: torchvision:NAME, or PACKAGE:FUNCTION that makes one."""
    package, _, function = model.partition(":")
    if not function:
        raise SystemExit(f"--model {model}: expected torchvision:NAME or PACKAGE:FUNCTION")
    if package == "torchvision":
        module = getattr(importlib.import_module("torchvision.models"), function)(weights=None)
    else:
        module = getattr(importlib.import_module(package), function)()
    module = module.to(device).train()
    inputs = (torch.randn(batch, *shape, device=device),)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.001, momentum=0.9)
    return module, inputs, lambda output: output.float().square().mean(), optimizer


def main():
    parser = argparse.ArgumentParser(description="Profiles one training step into a trace for `terrace plan`.")
    parser.add_argument("--model", required=True, help="torchvision:NAME, or PACKAGE:FUNCTION that makes a module")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--shape", default="3,224,224", help="of one input, without the batch")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=5, help="how many steps are timed; the median counts")
    parser.add_argument("--variants", action="store_true", help="measure convolutions in other ways, too")
    parser.add_argument("--out", required=True, help="the trace; packed if it ends with .gz")
    options = parser.parse_args()
    torch.manual_seed(0)
    shape = [int(side) for side in options.shape.split(",")]
    parts = build(options.model, options.batch, shape, torch.device(options.device))
    trace = profile(*parts, steps=options.steps, variants=3 if options.variants else 0,
                    name=f"{options.model.partition(':')[2]}-{options.batch}")
    write(trace, options.out)
    total, step = peak_bytes(trace)
    print(f"{options.out}: {len(trace['ops'])} operations, {len(trace['tensors'])} tensors, "
          f"{sum(op['time_us'] for op in trace['ops']) / 1000:.1f} ms, peak {total} bytes "
          f"({step} of them live only during the step)", file=sys.stderr)


if __name__ == "__main__":
    main()
