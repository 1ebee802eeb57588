#!/usr/bin/python3
"""The demonstration: one training job, stock and then in 60% of the memory, and whether anything differs.

tools/demo builds and calls this. Exit code 0: every loss and the hash of all parameters are equal.
"""
import sys
import tempfile
from pathlib import Path

import competitors
from cgroup import CgroupUnavailable, MemoryCgroup
from comparison import find_terrace
from sizes import format_size

WORKLOAD = ["--model", "densenet121", "--batch", "64", "--size", "128", "--steps", "5"]
PERCENT = 60


def cgroups_work():
    try:
        with MemoryCgroup(2**30):
            return True
    except (CgroupUnavailable, OSError) as error:
        print(f"No memory cgroup can be used here ({error}).\nTerrace gets a budget (--dram) instead, and peaks are "
              "the program's own resident memory.\n")
        return False


def run_both(settings, base_bytes):
    with_cgroups = cgroups_work()
    print("  1/2  stock PyTorch, no limit ...", flush=True)
    stock = competitors.run_stock(WORKLOAD, settings, None if with_cgroups else competitors.NoCgroup())
    stop_on_failure(stock)
    limit = stock.peak_bytes * PERCENT // 100 & ~0xfff
    if with_cgroups:
        print(f"  2/2  terrace run --limit {format_size(limit)} ({PERCENT}% of stock's peak) ...", flush=True)
        terrace = competitors.run_terrace(WORKLOAD, settings, limit)
    else:
        budget = limit - base_bytes
        print(f"  2/2  terrace run --dram {format_size(budget)} ({PERCENT}% of stock's peak, less Python itself) ...", flush=True)
        terrace = competitors.launch_terrace(WORKLOAD, settings, ["--dram", str(budget)], competitors.NoCgroup())
    stop_on_failure(terrace)
    return stock, terrace


def stop_on_failure(outcome):
    if outcome.failure:
        sys.exit(f"\nThe {outcome.competitor} run failed: {outcome.failure}")


def print_losses(stock, terrace):
    print(f"\n  {'step':6}{'loss, stock':24}loss, Terrace")
    for number, (ours, theirs) in enumerate(zip(terrace.result["steps"], stock.result["steps"]), 1):
        print(f"  {number:<6}{theirs['loss']:24}{ours['loss']:24}{verdict(ours['loss'] == theirs['loss'])}")
    ours, theirs = terrace.result["state_sha256"], stock.result["state_sha256"]
    print(f"  {'hash':6}{theirs[:20]:24}{ours[:20]:24}{verdict(ours == theirs)}")


def verdict(equal):
    return "equal" if equal else "DIFFERENT"


def print_costs(stock, terrace):
    ours, theirs = competitors.typical_step([terrace]), competitors.typical_step([stock])
    moved = terrace.moved
    rows = [
        ("", "stock", "Terrace", ""),
        ("median step", f"{theirs:.2f} s", f"{ours:.2f} s", f"{ours / theirs:.2f} times stock's"),
        ("peak memory", format_size(stock.peak_bytes), format_size(terrace.peak_bytes),
         f"{terrace.peak_bytes / stock.peak_bytes:.0%} of stock's"),
        ("written to disk", "-", format_size(moved.get("written_bytes")), "in all steps"),
        ("read back", "-", format_size(moved.get("read_bytes")), ""),
    ]
    print()
    for name, left, right, remark in rows:
        print(f"  {name:18}{left:>12}{right:>12}  {remark}".rstrip())


def main():
    print("Terrace: DenseNet-121, batch 64, 128x128, 5 training steps on the CPU\n")
    terrace_command = find_terrace(None)
    base_bytes = competitors.warm_page_cache()
    with tempfile.TemporaryDirectory(prefix="terrace-demo-") as scratch:
        settings = competitors.Settings(terrace_command, Path(), Path("/var/tmp"), Path(scratch))
        stock, terrace = run_both(settings, base_bytes)
    print_losses(stock, terrace)
    print_costs(stock, terrace)
    if terrace.digest() != stock.digest():
        print("\nThe runs differ. That must never happen; please report it with this output.")
        return 1
    print("\nEvery loss and the hash of all parameters are equal to the last bit.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
