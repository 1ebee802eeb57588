"""Policies of `terrace plan`, carried over to segments.

They plan single tensors at single operations. They are given the step as one operation for each segment and pass, and what they say
of the tensors that a segment saves decides for it: recomputed where most bytes are dropped and made again, away where most
bytes leave. The replay judges the outcome. Where it takes more than the budget, since segments are coarser than tensors, the policy is
asked again for less.
"""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from .observe import BEGIN, WANTED
from .replay import COMPRESS, KEEP, OFFLOAD, RECOMPUTE

POLICIES = ("flashneuron", "capuchin", "capuchin_swap", "g10", "sentinel_interval", "vdnn_all", "swapadvisor", "joint")
SHARES = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5, 0.4, 0.3)
SECONDS = 120
WEIGHTS = 0  # the tensor of everything that is there before; blocks are counted from 1
FIRST_GRADIENT = 1 << 40


def find_command():
    """The program `terrace`: that of TERRACE_COMMAND, in PATH, or beside the engine's library."""
    library = os.environ.get("TERRACE_GPU_LIBRARY")
    beside = [parent / "bin/terrace" for parent in Path(library).resolve().parents[:4]] if library else []
    for found in (os.environ.get("TERRACE_COMMAND"), shutil.which("terrace"), *beside):
        if found and os.access(found, os.X_OK):
            return str(found)
    raise ValueError("policy: the published policies are those of the program 'terrace', which was not found; put it into PATH, name it in "
                     "TERRACE_COMMAND, or use policy='best'")


def choose(chooser, replay, policy, budget):
    """The fastest of what the policy says for the budget and for less, within the budget; else that of the least peak."""
    command, trace, found = find_command(), trace_of(replay), []
    with tempfile.TemporaryDirectory(prefix="terrace-plan-") as folder:
        for share in SHARES:
            schedule = _ask(command, Path(folder), trace, _machine(replay, int(budget * share)), policy)
            if schedule is None:
                continue
            found.append(chooser.of(_choice(replay, schedule)))
            if found[-1].peak_bytes <= budget:
                return found[-1]
    if not found:
        raise ValueError(f"policy: {policy} finds no plan for {budget} bytes; give it a larger budget, or use policy='best'")
    return min(found, key=lambda chosen: chosen.peak_bytes)


def _ask(command, folder, trace, machine, policy):
    """The schedule; None where the policy has none for so little memory."""
    (folder / "step.json").write_text(json.dumps(trace), encoding="utf-8")
    (folder / "machine.json").write_text(json.dumps(machine), encoding="utf-8")
    out = folder / "schedule.json"
    out.unlink(missing_ok=True)
    done = subprocess.run([command, "plan", str(folder / "step.json"), "--machine", str(folder / "machine.json"), "--policy", policy,
                           "--out", str(out), "--json"], capture_output=True, text=True, check=False, timeout=SECONDS)
    if done.returncode == 2:
        raise ValueError(f"policy: terrace plan refused the step: {done.stderr.strip()}")
    return json.loads(out.read_text(encoding="utf-8")) if out.exists() else None


def trace_of(replay):
    """docs/formats/trace.md: forward segments in their order, then their backward passes in theirs."""
    step = replay.step
    forward = [(mark.value, index) for index, mark in enumerate(step.marks) if mark.kind == BEGIN]
    first_wanted = {}
    for index, mark in enumerate(step.marks):
        if mark.kind == WANTED and mark.segment >= 0:
            first_wanted.setdefault(mark.segment, index)
    backward = sorted(first_wanted.items(), key=lambda item: item[1])
    spans = [index for _, index in (*forward, *backward)] + [len(step.marks) - 1]
    rest, ops, born = _unnamed(replay), [], set()
    for place, (number, index) in enumerate((*forward, *backward)):
        saved, arguments = set(replay.saved_by(number)), step.inputs.get(number, set())
        goes_forward = place < len(forward)
        inputs = (arguments & born) if goes_forward else (saved | arguments) & born
        outputs = saved - born if goes_forward else set()
        born |= outputs
        gradient = FIRST_GRADIENT + place - len(forward)  # a byte, so that the policies know the two passes apart
        given = _ids(outputs) if goes_forward else [gradient]
        taken = [gradient - 1] if place > len(forward) else []
        ticks = range(step.tick_of[index], step.tick_of[spans[place + 1]] + 1)
        ops.append({"name": step.segments[number].name + ("" if goes_forward else " back"), "inputs": [WEIGHTS, *_ids(inputs), *taken],
                    "outputs": given, "recomputable": goes_forward,
                    "time_us": 1e6 * sum(step.seconds[index + 1:spans[place + 1] + 1]),
                    "workspace_bytes": max((rest[tick] for tick in ticks), default=0)})
    tensors = [{"id": block + 1, "bytes": step.blocks[block].nbytes, "kind": "activation", "sparsity": step.zeros.get(block, 0.0)}
               for block in sorted(born)]
    tensors += [{"id": FIRST_GRADIENT + place, "bytes": 1, "kind": "gradient"} for place in range(len(backward))]
    tensors.append({"id": WEIGHTS, "bytes": max(1, step.base_bytes), "kind": "weight", "persistent": True})
    return {"format": "terrace-trace", "version": 1, "name": "segments", "source": "terrace.torch.plan", "ops": ops, "tensors": tensors}


def _ids(blocks):
    return [block + 1 for block in sorted(blocks)]


def _unnamed(replay):
    """By tick, what lives of the blocks that no segment saves."""
    step, named = replay.step, {block for number in range(len(replay.step.segments)) for block in replay.saved_by(number)}
    changes = [0] * (step.ticks + 1)
    for block, each in enumerate(step.blocks):
        if block not in named:
            changes[each.born] += each.nbytes
            changes[each.died] -= each.nbytes
    live, result = 0, []
    for change in changes:
        live += change
        result.append(live)
    return result


def _machine(replay, capacity):
    link = replay.links.get(OFFLOAD) or replay.links[COMPRESS]
    rate = lambda way: 1 / max(1e-15, way.per_byte + way.per_kept_byte)
    machine = {"format": "terrace-machine", "version": 1, "name": "this", "tiers": [
        {"name": "device", "capacity_bytes": capacity}, {"name": "host"}],
        "links": [{"name": "link", "in_bytes_per_second": rate(link.back), "out_bytes_per_second": rate(link.out),
                   "in_latency_us": 1e6 * link.back.seconds, "out_latency_us": 1e6 * link.out.seconds}],
        "routes": [{"tier": "host", "links": ["link"]}]}
    codec = replay.links.get(COMPRESS)
    if codec is not None:
        machine["codecs"] = [{"name": "zvc", "drops_zeros": True, "stored_share": 1,
                              "compress_bytes_per_second": 1 / max(1e-12, codec.out.per_byte),
                              "decompress_bytes_per_second": 1 / max(1e-12, codec.back.per_byte)}]
    return machine


def _choice(replay, schedule):
    actions = {}
    for entry in schedule["entries"]:
        actions.setdefault(entry["tensor"] - 1, set()).add("codec" if entry.get("codec") else entry["action"])
    result = []
    for number in range(len(replay.step.segments)):
        result.append(_of_segment(replay, number, actions))
    return result


def _of_segment(replay, number, actions):
    sizes, total = {"redo": 0, "codec": 0, "out": 0}, 0
    for block in replay.saved_by(number):
        nbytes = replay.step.blocks[block].nbytes
        total += nbytes
        for action in sizes:
            sizes[action] += nbytes if action in actions.get(block, ()) else 0
    for action, kind in (("redo", RECOMPUTE), ("codec", COMPRESS), ("out", OFFLOAD)):
        if 2 * sizes[action] >= total > 0 and kind in replay.options(number):
            return kind
    return KEEP
