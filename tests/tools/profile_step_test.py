#!/usr/bin/env python3
"""tools/profile/profile_step.py on a small network: what the trace says about memory is what the allocator did."""
import gzip
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "profile"))
try:
    import torch
except ImportError:
    print("SKIP: python3 has no torch")
    sys.exit(77)
import profile_step
import step_memory

torch.manual_seed(0)
torch.set_num_threads(1)
layers = torch.nn
module = layers.Sequential(layers.Conv2d(3, 8, 3), layers.BatchNorm2d(8), layers.ReLU(inplace=True), layers.Conv2d(8, 8, 3),
                           layers.ReLU(), layers.MaxPool2d(2), layers.Dropout(0.5), layers.Flatten(), layers.Linear(8 * 6 * 6, 5))
inputs = (torch.randn(4, 3, 16, 16),)
optimizer = torch.optim.Adam(module.parameters())
parts = (module, inputs, lambda output: output.square().mean(), optimizer)
trace = profile_step.profile(*parts, steps=2, name="small")
tensors = {t["id"]: t for t in trace["tensors"]}
ops = trace["ops"]


def check(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def named(name):
    return [op for op in ops if op["name"] == name]


measured = step_memory.peak_bytes(step_memory.allocations(lambda: profile_step.run_step(*parts), torch.device("cpu")))
total, step = profile_step.peak_bytes(trace)
check(abs(step - measured) <= 0.01 * measured, f"the trace's peak is {step}, the allocator's {measured}")
check(total - step == sum(t["bytes"] for t in tensors.values() if t["persistent"]), "the persistent part of the peak")

check(all(i in tensors for op in ops for i in op["inputs"] + op["outputs"]), "every tensor that is named exists")
check(len(tensors) == len(trace["tensors"]), "ids are there once")
weights = sum(p.numel() * 4 for p in module.parameters()) + sum(b.numel() * b.element_size() for b in module.buffers())
check(sum(t["bytes"] for t in tensors.values() if t["kind"] == "weight") == weights, "weights by class")
state = sum(v.numel() * v.element_size() for s in optimizer.state.values() for v in s.values())
check(sum(t["bytes"] for t in tensors.values() if t["kind"] == "optimizer" and t["persistent"]) == state, "optimizer state")
check(sum(t["bytes"] for t in tensors.values() if t["kind"] == "input") >= inputs[0].numel() * 4, "the input")

in_place = named("aten::relu_")[0]
check(in_place["outputs"] and set(in_place["outputs"]) <= set(in_place["inputs"]), "in-place names its tensor twice")
check(in_place.get("recomputable", True), "an update in place can run again after what it updates")
statistics = {i for op in named("aten::native_batch_norm") for i in op["inputs"] if i in op["outputs"]}
check({tensors[i]["bytes"] for i in statistics} == {8 * 4} and len(statistics) == 2, f"running statistics: {statistics}")
check({t["id"] for t in trace["tensors"] if t.get("running_statistics")} == statistics, "and nothing else is marked as such")
check(all(op.get("recomputable", True) for op in named("aten::native_batch_norm")), "batch normalisation can run again")
relu = tensors[named("aten::relu")[0]["outputs"][0]]
check(0 < relu["sparsity"] < 1 and relu["shape"] == [4, 8, 12, 12] and relu["dtype"] == "float32", f"a ReLU's output: {relu}")
check(all(set(op.get("sign_only", [])) <= set(op["inputs"]) - set(op["outputs"]) for op in ops), "signs are read of inputs")
signs = {op["name"]: op["sign_only"] for op in ops if "sign_only" in op}
views = {"aten::detach", "aten::view", "aten::_unsafe_view", "aten::t", "aten::expand", "aten::_reshape_alias", "aten::alias"}
check(set(signs) - views == {"aten::threshold_backward", "aten::max_pool2d_with_indices_backward"},
      f"who reads signs alone: {signs}")
check(all(not op["outputs"] for op in ops if "sign_only" in op and op["name"] in views), "views make nothing")
check(all(len(op["sign_only"]) == 1 for op in named("aten::threshold_backward")), "ReLU's backward pass reads one by its signs")
check(signs["aten::max_pool2d_with_indices_backward"] == [relu["id"]], "max-pooling's backward pass needs no value of its input")
back = [op for op in ops[ops.index(named("aten::max_pool2d_with_indices")[0]) + 1:] if relu["id"] in op["inputs"]]
check(back and all(relu["id"] in op.get("sign_only", []) for op in back), f"of a ReLU before pooling, values are read: {back}")
first = in_place["outputs"][0]
check(any(first in op["inputs"] and first not in op.get("sign_only", []) for op in named("aten::convolution_backward")),
      "of a ReLU before a convolution, values are read")
wanted = torch.randn(4, requires_grad=True)
modes = profile_step.StructureMode(profile_step.Storages(torch.device("cpu")))
with modes:
    torch.nn.functional.threshold(wanted, 0.5, 0.0).sum().backward()
check([op for op in modes.ops if op["name"] == "aten::threshold_backward" and "sign_only" not in op], "of another threshold")
with modes:
    torch.ops.aten.threshold_backward(wanted.detach(), wanted.detach(), 0)
check("sign_only" not in modes.ops[-1], "of what comes in twice, the values are read")
check(relu["saved"] and tensors[in_place["outputs"][0]]["saved"], "outputs of ReLUs are saved for the backward pass")
convolution = named("aten::convolution")[0]
check(convolution["flops"] == 2 * 4 * 8 * 14 * 14 * 27, "operations of a convolution")
check(any(op.get("recomputable") is False for op in named("aten::bernoulli_.float") + named("aten::native_dropout")),
      "random operators cannot run twice")
made = {i for op in named("aten::convolution_backward") for i in op["outputs"]}
check(made and all(tensors[i]["kind"] == "gradient" for i in made), "what the backward pass makes are gradients")
check(all(op["time_us"] >= 0 for op in ops) and sum(op["time_us"] for op in ops) > 0, "operators take time")

with tempfile.TemporaryDirectory() as directory:
    path = os.path.join(directory, "trace.json.gz")
    profile_step.write(trace, path)
    with gzip.open(path, "rt") as file:
        check(json.load(file) == trace, "what is written reads back the same")
print(f"{len(ops)} operations, {len(tensors)} tensors, peak {step} bytes, the allocator's {measured}")
