#!/usr/bin/env python3
"""tools/profile/step_variants.py on a small network: each variant gives what the operator gives, its workspace is what the
allocator tells of the whole step, and a plan of variants runs as it says."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "profile"))
try:
    import torch
except ImportError:
    print("SKIP: python3 has no torch")
    sys.exit(77)
import profile_step
import run_variants
import step_memory
import step_variants

torch.manual_seed(0)
torch.set_num_threads(1)
layers = torch.nn
module = layers.Sequential(layers.Conv2d(3, 16, 3), layers.ReLU(), layers.Conv2d(16, 16, 3), layers.ReLU(), layers.Flatten(),
                           layers.Linear(16 * 28 * 28, 5))
inputs = (torch.randn(8, 3, 32, 32),)
optimizer = torch.optim.SGD(module.parameters(), lr=0.0)  # so that every step is the same
parts = (module, inputs, lambda output: output.square().mean(), optimizer)
trace = profile_step.profile(*parts, steps=2, name="small", variants=1)
ops = trace["ops"]


def check(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


convolutions = [i for i, op in enumerate(ops) if op["name"].startswith("aten::convolution")]
check(len(convolutions) == 4, "two convolutions forward and back")
check(all("variants" not in op for i, op in enumerate(ops) if i not in convolutions), "nothing else has variants")
for i in convolutions:
    names = [v["name"] for v in ops[i]["variants"]]
    check({"parts 2", "parts 4"} <= set(names), f"{ops[i]['name']} in parts: {names}")
    check(all(v["time_us"] > 0 and v["workspace_bytes"] >= 0 for v in ops[i]["variants"]), f"costs: {ops[i]['variants']}")


def gradients(schedule):
    """Of forward and backward with these variants."""
    with step_variants.ChosenMode(trace, schedule):
        parts[2](module(*inputs)).backward()
    held = [p.grad for p in module.parameters()]
    optimizer.zero_grad(set_to_none=True)
    return held


plain = gradients({})
check(all(p.abs().max() > 0 for p in plain), "the step has gradients")
for name in sorted({v["name"] for i in convolutions for v in ops[i]["variants"]}):
    schedule = {"variants": [{"op": i, "variant": name} for i in convolutions
                             if name in [v["name"] for v in ops[i]["variants"]]]}
    check(all(torch.allclose(a, b, rtol=1e-3, atol=1e-5) for a, b in zip(gradients(schedule), plain)),
          f"gradients with {name}")
    # The step's peak with these variants, as the trace says and as the allocator does.
    predicted = profile_step.peak_bytes(run_variants.as_chosen(trace, schedule))[1]

    def chosen(schedule=schedule):
        with step_variants.ChosenMode(trace, schedule):
            profile_step.run_step(*parts)

    measured = step_memory.peak_bytes(step_memory.allocations(chosen, torch.device("cpu")))
    check(abs(measured - predicted) <= 0.02 * measured, f"peak with {name}: {predicted} predicted, {measured} measured")
    print(f"{name}: {len(schedule['variants'])} operations, peak {predicted} predicted, {measured} measured")

try:
    gradients({"variants": [{"op": convolutions[0], "variant": "no such way"}]})
    check(False, "a variant that there is not must be refused")
except KeyError:
    pass

row = run_variants.run(parts, trace, {"variants": [{"op": convolutions[0], "variant": "parts 2"}]}, 2)
check(row["variants"] == 1 and row["step_ms"] > 0 and row["predicted_step_ms"] > 0, f"a run: {row}")
