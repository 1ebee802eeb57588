#!/usr/bin/python3
"""Trains a small network stock and under `terrace run`, and demands the same losses and parameters to the last bit.

The budget is far below what the network needs, so activations, gradients and data really leave DRAM: a run that
moved less than the budget itself proves nothing and fails.

    training.py densenet121 move         unmodified DenseNet-121, pages taken out with UFFDIO_MOVE
    training.py workers mremap           the same with forked DataLoader workers that read evicted data
    training.py relu_cnn move zvc_exp    a ReLU network, what leaves DRAM compressed by one codec
    training.py workers move kept        what compresses well is kept in a part of the budget
    training.py unet stock FILE          the same without Terrace, once for several of the others
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PYTHON = "/usr/bin/python3"
MIB = 2**20
# name: (arguments of train.py, DRAM budget in bytes)
CASES = {
    "densenet121": (["--model", "densenet121", "--batch", "16", "--size", "96", "--steps", "3"], 160 * MIB),
    "transformer": (["--model", "transformer", "--batch", "8", "--size", "128", "--steps", "3"], 384 * MIB),
    "unet": (["--model", "unet", "--batch", "2", "--size", "128", "--steps", "3"], 96 * MIB),
    "relu_cnn": (["--model", "relu_cnn", "--batch", "6", "--size", "64", "--steps", "3"], 80 * MIB),
    "workers": (["--model", "densenet121", "--batch", "16", "--size", "96", "--steps", "6", "--workers", "2"], 160 * MIB),
}


def train(arguments, scratch, launcher=()):
    source, result = Path(os.environ["TERRACE_SOURCE"]), scratch / "result.json"
    program = source / "tools/bench/workloads/train.py"
    # Other tests may use the processors too; OpenMP's threads would otherwise spin for each other.
    environment = os.environ | {"OMP_WAIT_POLICY": "passive"}
    subprocess.run([*launcher, PYTHON, program, *arguments, "--json", result], check=True, env=environment)
    return json.loads(result.read_text(encoding="utf-8"))


def train_stock(case, scratch):
    """As it was trained by a run before, `training.py CASE stock FILE`, where TERRACE_STOCK_RESULT names its FILE."""
    known = os.environ.get("TERRACE_STOCK_RESULT")
    return json.loads(Path(known).read_text(encoding="utf-8")) if known else train(CASES[case][0], scratch)


def train_under_terrace(arguments, scratch, mover, budget, codec):
    summary = scratch / "summary.json"
    launcher = [os.environ["TERRACE_BIN"], "run", "--dram", str(budget), "--pool", scratch, "--mover", mover,
                "--json-summary", summary, "--compress"]
    launcher += ["zvc_exp", "--tiers", "compressed=30%", "--"] if codec == "kept" else [codec, "--"]
    result = train(arguments, scratch, launcher)
    return result, json.loads(summary.read_text(encoding="utf-8"))


def differences(stock, terrace):
    for number, (theirs, ours) in enumerate(zip(stock["steps"], terrace["steps"]), 1):
        if theirs["loss"] != ours["loss"]:
            yield f"loss of step {number}: {theirs['loss']} stock, {ours['loss']} under Terrace"
    if stock["state_sha256"] != terrace["state_sha256"]:
        yield "the hash of all parameters and buffers differs"


def proves_nothing(counters, mover, budget, codec):
    if counters.get("pager") != "active" or counters.get("mover") != mover:
        return f"pager {counters.get('pager')}, mover {counters.get('mover')}; wanted active, {mover}"
    if counters["evicted_bytes"] < budget:
        return f"only {counters['evicted_bytes']} bytes were evicted under a budget of {budget}"
    if codec == "kept":
        return None if counters.get("kept_bytes", 0) > 0 else "nothing was kept compressed in DRAM"
    if codec != "auto" and not 0 < counters[f"{codec}_frame_bytes"] < counters[f"{codec}_content_bytes"]:
        return f"{codec} made nothing smaller"
    return None


def main():
    case, mover, codec = [*sys.argv[1:], "auto"][:3]
    arguments, budget = CASES[case]
    if mover == "stock":
        with tempfile.TemporaryDirectory(prefix="terrace-e2e.", dir=os.environ.get("TMPDIR", "/var/tmp")) as directory:
            Path(codec).write_text(json.dumps(train(arguments, Path(directory))), encoding="utf-8")
        return 0
    with tempfile.TemporaryDirectory(prefix="terrace-e2e.", dir=os.environ.get("TMPDIR", "/var/tmp")) as directory:
        stock = train_stock(case, Path(directory))
        terrace, summary = train_under_terrace(arguments, Path(directory), mover, budget, codec)
    failures = list(differences(stock, terrace))
    if "counters" not in summary:
        failures.append(f"the summary has no counters: {summary.get('counters_unknown')}")
    else:
        failures += filter(None, [proves_nothing(summary["counters"], mover, budget, codec)])
        print(json.dumps(summary["counters"], indent=1))
    for failure in failures:
        print(f"FAILED: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
