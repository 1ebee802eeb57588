#!/usr/bin/python3
"""How well a trace describes the step that it was made from: the sum of the operators' times against the wall time of
steps that nobody watched, and the trace's peak against the allocator's in a step without any mode.

Both what measuring costs inside an operator's time and between two of them is measured in the same process, on an operator
that does nothing, and subtracted; the step's own wall time is not used for that. "in operators" is the part that is
spent in operators, the rest of the sum is Python, autograd and memory that goes back to the system. Peaks count
PyTorch's allocator; memory that libraries take from malloc themselves is in neither figure.

    agreement.py [--models resnet18,densenet121,mobilenet_v2] [--batch 8] [--steps 7] [--json]
"""
import argparse
import json
import statistics

import torch

import profile_step
import step_memory
from step_modes import overheads_us


def measure(model, batch, steps, device):
    torch.manual_seed(0)
    parts = profile_step.build(f"torchvision:{model}", batch, (3, 224, 224), device)
    step = lambda: profile_step.run_step(*parts)
    plain = []
    trace = profile_step.profile(*parts, steps=steps, plain_ms=plain)
    measured_step = step_memory.peak_bytes(step_memory.allocations(step, device))
    total, trace_step = profile_step.peak_bytes(trace)
    return {"model": model, "batch": batch, "operations": len(trace["ops"]), "tensors": len(trace["tensors"]),
            "step_ms": statistics.median(plain), "step_ms_least": min(plain), "step_ms_most": max(plain),
            "trace_ms": sum(op["time_us"] for op in trace["ops"]) / 1000,
            "in_operators_ms": sum(op["time_us"] for op in trace["ops"] if op["name"] != "between operators") / 1000,
            "overheads_us": overheads_us(), "persistent_bytes": total - trace_step,
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
    print("| model | step ms | trace ms | ratio | in operators ms | allocated at most | trace says | ratio |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for r in rows:
        print(f"| {r['model']}-{r['batch']} | {r['step_ms']:.1f} | {r['trace_ms']:.1f} | "
              f"{r['trace_ms'] / r['step_ms']:.3f} | {r['in_operators_ms']:.1f} | {r['measured_step_peak_bytes']} | {r['trace_step_peak_bytes']} | "
              f"{r['trace_step_peak_bytes'] / r['measured_step_peak_bytes']:.4f} |")


if __name__ == "__main__":
    main()
