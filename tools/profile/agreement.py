#!/usr/bin/env python3
"""How well a trace describes the step that it was made from: the sum of the operators' times against the wall time of
steps that nobody watched, and the trace's peak against the allocator's in a step without any mode.

The sum is below the step where Python, the autograd engine and the release of memory take time between operators: that
belongs to none of them. Each operator's time is measured around its call from Python and lessened by what such a call
costs more than one from C++ (call_overhead_us, measured in the same process). Peaks count PyTorch's allocator; memory
that libraries take from malloc themselves is in neither figure.

    agreement.py [--models resnet18,densenet121,mobilenet_v2] [--batch 8] [--steps 7] [--json]
"""
import argparse
import json
import statistics
import time

import torch

import profile_step
import step_memory
from step_modes import call_overhead_us


def wall_ms(step, steps, device):
    times = []
    for _ in range(steps):
        begin = time.perf_counter()
        step()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) * 1000)
    return statistics.median(times)


def measure(model, batch, steps, device):
    torch.manual_seed(0)
    parts = profile_step.build(f"torchvision:{model}", batch, (3, 224, 224), device)
    step = lambda: profile_step.run_step(*parts)
    wall = [0.0, 0.0]
    step()
    wall[0] = wall_ms(step, steps, device)
    trace = profile_step.profile(*parts, steps=steps, warm_up=1)
    wall[1] = wall_ms(step, steps, device)
    measured_step = step_memory.peak_bytes(step_memory.allocations(step, device))
    total, trace_step = profile_step.peak_bytes(trace)
    return {"model": model, "batch": batch, "operations": len(trace["ops"]), "tensors": len(trace["tensors"]),
            "step_ms": statistics.mean(wall), "step_before_ms": wall[0], "step_after_ms": wall[1],
            "operators_ms": sum(op["time_us"] for op in trace["ops"]) / 1000,
            "call_overhead_us": call_overhead_us(), "persistent_bytes": total - trace_step,
            "trace_step_peak_bytes": trace_step, "measured_step_peak_bytes": measured_step}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="resnet18,densenet121,mobilenet_v2")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [measure(m, options.batch, options.steps, torch.device(options.device)) for m in options.models.split(",")]
    if options.json:
        print(json.dumps({"torch": torch.__version__, "threads": torch.get_num_threads(), "rows": rows}, indent=1))
        return
    print("| model | step ms | operators ms | ratio | allocated at most | trace says | ratio |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for r in rows:
        print(f"| {r['model']}-{r['batch']} | {r['step_ms']:.1f} | {r['operators_ms']:.1f} | "
              f"{r['operators_ms'] / r['step_ms']:.3f} | {r['measured_step_peak_bytes']} | {r['trace_step_peak_bytes']} | "
              f"{r['trace_step_peak_bytes'] / r['measured_step_peak_bytes']:.4f} |")


if __name__ == "__main__":
    main()
