#!/usr/bin/python3
"""A training step with the variants that a schedule chooses, run and set beside what was predicted.

    profile_step.py --model torchvision:resnet18 --batch 8 --variants --out step.json
    terrace plan step.json --machine MACHINE --policy vdnn_dynamic --out plan.json
    run_variants.py --model torchvision:resnet18 --batch 8 --trace step.json --plan plan.json

Only plans that move nothing can be run: there is nowhere to move to. The peak is of what lives during the step, as PyTorch's
allocator tells of it, beside the same of the trace; the time is the median of --steps, each beside one without variants, and its
prediction is the trace's, scaled by what the step without variants takes now to what the trace says that it takes.
"""
import argparse
import gzip
import json
import statistics

import torch

import profile_step
import step_memory
import step_variants


def load(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as file:
        return json.load(file)


def as_chosen(trace, schedule):
    """The trace with what each operation costs in its variant."""
    ops = [dict(op) for op in trace["ops"]]
    for choice in schedule.get("variants", []):
        op = ops[choice["op"]]
        op.update(next({"time_us": v["time_us"], "workspace_bytes": v.get("workspace_bytes", 0)}
                       for v in op["variants"] if v["name"] == choice["variant"]))
    return {**trace, "ops": ops}


def step_us(trace):
    return sum(op["time_us"] for op in trace["ops"])


def run(parts, trace, schedule, steps):
    module, inputs, loss, optimizer = parts
    device = next(module.parameters()).device
    step = lambda: profile_step.run_step(module, inputs, loss, optimizer)

    def chosen():
        with step_variants.ChosenMode(trace, schedule):
            step()

    nothing = {"variants": []}

    def plain():  # through the same mode, so that what it costs is in both
        with step_variants.ChosenMode(trace, nothing):
            step()

    for _ in range(2):
        step()
        chosen()
    plain_ms, chosen_ms = [], []
    for _ in range(steps):
        plain_ms.append(profile_step.wall_ms(plain, device))
        chosen_ms.append(profile_step.wall_ms(chosen, device))
    planned = as_chosen(trace, schedule)
    measured_ms = statistics.median(chosen_ms)
    predicted_ms = statistics.median(plain_ms) * step_us(planned) / step_us(trace)
    peak = step_memory.peak_bytes(step_memory.allocations(chosen, device))
    return {"variants": len(schedule.get("variants", [])), "peak_bytes": peak,
            "predicted_peak_bytes": profile_step.peak_bytes(planned)[1],
            "peak_of_trace_bytes": profile_step.peak_bytes(trace)[1], "step_ms": round(measured_ms, 3),
            "predicted_step_ms": round(predicted_ms, 3), "plain_step_ms": round(statistics.median(plain_ms), 3)}


def main():
    parser = argparse.ArgumentParser(description="Runs a step with the variants of a schedule, beside its prediction.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--shape", default="3,224,224")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--trace", required=True, help="of profile_step.py --variants, with the same options")
    parser.add_argument("--plan", required=True, help="of terrace plan --out")
    parser.add_argument("--steps", type=int, default=5)
    options = parser.parse_args()
    trace, schedule = load(options.trace), load(options.plan)
    if schedule.get("entries"):
        raise SystemExit(f"{options.plan}: it moves tensors; only a plan of variants alone can be run here")
    if schedule.get("operations"):
        raise SystemExit(f"{options.plan}: it runs the operations in another order; only a plan of variants alone can be run here")
    torch.manual_seed(0)
    shape = [int(side) for side in options.shape.split(",")]
    parts = profile_step.build(options.model, options.batch, shape, torch.device(options.device))
    print(json.dumps(run(parts, trace, schedule, options.steps)))


if __name__ == "__main__":
    main()
