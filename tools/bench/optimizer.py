#!/usr/bin/python3
"""terrace bench optimizer: a step of AdamW with its states off the device, beside PyTorch's, and beside memory's speed.

    terrace bench optimizer --json result.json
    terrace bench optimizer --quick                     smaller, without the drive's and the limit's parts
    terrace bench optimizer --swap                      the model under a limit as well, beside kernel swap (root)
    tools/other_torch --suite sid -- python3 tools/bench/optimizer.py      the same with the newest PyTorch

Kernels: STREAM's triad and the kernels in turn, each round; a kernel's share is its 28 bytes a parameter, by its time,
of the round's faster triad. Steps: every contender updates its own parameters from the same gradients, in turn in each
round, the order reversed every second; medians count, ratios are medians of the rounds' own. --swap: a bf16 model whose
states are three times the memory limit, with its states on the drive under that limit, and with its states in memory
under the same limit with kernel swap; both must end with the same parameters, to the last bit.
"""
import argparse
import json
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import torch

HERE = Path(__file__).resolve().parent
for place in (HERE.parents[1] / "liballoc/python", HERE.parents[1] / "terrace/python"):
    sys.path.append(str(place))  # a checkout's, an installation's

import competitors  # noqa: E402
import machine  # noqa: E402
import targets  # noqa: E402
import terrace.torch  # noqa: E402
from cgroup import CgroupUnavailable, MemoryCgroup  # noqa: E402
from comparison import find_terrace  # noqa: E402
from sizes import format_size  # noqa: E402
from swapfile import SwapUnavailable  # noqa: E402

BYTES = 28  # a parameter's, in and out
TENSORS = 16
TRIADS = {"triad": 16, "triad past caches": 12}  # bytes an element
LAYERS, WIDTH = 18, 4096  # of the model under a limit: 302 million parameters, 3.4 GiB of states


def parse_arguments():
    parser = argparse.ArgumentParser(prog="terrace bench optimizer", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parameters", type=int, metavar="N", help="update so many millions of parameters in a step (64; 8 with --quick)")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, help="compute with so many threads (as many as PyTorch)")
    parser.add_argument("--quick", action="store_true", help="measure 8 million parameters, in DRAM alone")
    parser.add_argument("--swap", action="store_true", help="also train a model under a limit, beside kernel swap")
    parser.add_argument("--steps", type=int, default=3, help="train the model of --swap for so many steps (3)")
    parser.add_argument("--timeout", type=int, default=600, metavar="SECONDS", help="end a run of that model that takes longer (600)")
    parser.add_argument("--pool", type=Path, default=Path("/var/tmp"), help="put states and swap file into this directory (/var/tmp)")
    parser.add_argument("--terrace", type=Path, metavar="FILE", help="measure this terrace command")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    arguments.parameters = arguments.parameters or (8 if arguments.quick else 64)
    arguments.threads = arguments.threads or torch.get_num_threads()
    if min(arguments.parameters, arguments.rounds, arguments.threads) < 1 or arguments.steps < 2:
        parser.error("--parameters, --rounds and --threads must be at least 1, --steps at least 2: the first is not counted")
    if not arguments.pool.is_dir():
        parser.error(f"--pool {arguments.pool} is not a directory")
    return arguments


# Kernels

def kernels(arguments):
    """[{name, seconds, bytes_per_second, share}]; triads have no share."""
    slices = max(16, arguments.parameters * 10**6 // 65536)
    program = arguments.terrace.parent / "terrace-optimizer-kernels"
    words = [program, "--slices", slices, "--threads", arguments.threads, "--rounds", arguments.rounds]
    found = json.loads(subprocess.check_output([str(word) for word in words], text=True))
    elements, seconds = found["elements"], found["seconds"]
    rates = {name: [elements * TRIADS.get(name, BYTES) / one for one in times] for name, times in seconds.items()}
    bandwidth = [max(pair) for pair in zip(*(rates[name] for name in TRIADS))]
    rows = []
    for name, of_rounds in rates.items():
        share = {} if name in TRIADS else {"share": median(one / most for one, most in zip(of_rounds, bandwidth))}
        rows.append({"name": name, "seconds": median(seconds[name]), "bytes_per_second": median(of_rounds), **share})
    return rows


# Steps

def contenders(arguments):
    """name: a function that makes the optimizer of given parameters."""
    ours = {"threads": arguments.threads}
    made = {"torch for-loop": lambda given: torch.optim.AdamW(given, foreach=False),
            "torch foreach": lambda given: torch.optim.AdamW(given, foreach=True),
            "torch fused": lambda given: torch.optim.AdamW(given, fused=True),
            "terrace dram": lambda given: terrace.torch.AdamW(given, **ours)}
    if not arguments.quick:
        made["terrace nvme"] = lambda given: terrace.torch.AdamW(given, tier="nvme", directory=arguments.pool, **ours)
    return {name: make for name, make in made.items() if works(make)}


def works(make):
    """Old PyTorch has no fused AdamW on a CPU."""
    parameter = torch.nn.Parameter(torch.zeros(8))
    parameter.grad = torch.ones(8)
    try:
        make([parameter]).step()
    except (RuntimeError, TypeError):
        return False
    return True


def steps(arguments, dtype):
    """[{name, seconds, parameters_per_second, ratio_to_…}] for parameters of that type."""
    torch.set_num_threads(arguments.threads)
    elements = arguments.parameters * 10**6 // TENSORS
    generator = torch.Generator().manual_seed(0)
    gradients = [torch.randn(elements, generator=generator).to(dtype) for _ in range(TENSORS)]
    optimizers = {}
    for name, make in contenders(arguments).items():
        given = [torch.nn.Parameter(gradient.clone()) for gradient in gradients]
        for parameter, gradient in zip(given, gradients):
            parameter.grad = gradient
        optimizers[name] = make(given)
    times = {name: [] for name in optimizers}
    for number in range(arguments.rounds + 1):
        for name in list(optimizers)[::-1 if number % 2 else 1]:
            start = time.perf_counter()
            optimizers[name].step()
            if number:  # the first makes the states
                times[name].append(time.perf_counter() - start)
    return [row(name, of_rounds, times, elements * TENSORS) for name, of_rounds in times.items()]


def row(name, seconds, times, elements):
    ratios = {f"ratio_to_{other.replace(' ', '_')}": median(mine / theirs for mine, theirs in zip(seconds, times[other]))
              for other in ("torch fused", "torch foreach") if other in times and name.startswith("terrace")}
    return {"name": name, "seconds": median(seconds), "parameters_per_second": elements / median(seconds), **ratios}


# Under a limit

def under_a_limit(arguments):
    states = 12 * LAYERS * WIDTH**2
    limit = states // 3
    words = ["--layers", LAYERS, "--width", WIDTH, "--steps", arguments.steps]
    with tempfile.TemporaryDirectory(prefix="terrace-bench-") as scratch:
        settings = competitors.Settings(arguments.terrace, None, arguments.pool, Path(scratch), arguments.timeout,
                                        HERE / "workloads/optimizer.py")
        ours = competitors.run_stock([*words, "--tier", "nvme", "--directory", arguments.pool], settings, MemoryCgroup(limit))
        swap = competitors.run_swap([*words, "--tier", "dram"], settings, limit, states + 2 * limit)
    runs = [{"name": name, "step_seconds": outcome.step_seconds(), "peak_bytes": outcome.peak_bytes, "moved": outcome.moved,
             **({"failure": outcome.failure} if outcome.failure else {})}
            for name, outcome in (("terrace nvme", ours), ("terrace dram, kernel swap", swap))]
    found = {"parameters": states // 12, "states_bytes": states, "limit_bytes": limit, "runs": runs}
    if ours.result and swap.result:
        found["bit_identical"] = ours.digest() == swap.digest()
    if len(ours.step_seconds()) > 1 and len(swap.step_seconds()) > 1:
        found["ratio_to_swap"] = median(ours.step_seconds()[1:]) / median(swap.step_seconds()[1:])
    return found


# What came of it

def wanted(document):
    made = [targets.at_least(f"{row['name']}: share of memory's speed", row["share"], .8)
            for row in document["kernels"] if "share" in row]
    for dtype, rows in document["steps"].items():
        for row in rows:
            if row["name"] == "terrace dram" and "ratio_to_torch_fused" in row and dtype == "float32":
                made.append(targets.at_most(f"{dtype}: terrace dram by torch fused", row["ratio_to_torch_fused"], 1.))
    if "limit" in document:
        limited = document["limit"]
        made.append(targets.at_most("under a limit: step by kernel swap's", limited.get("ratio_to_swap"), 1.,
                                    None if "ratio_to_swap" in limited else not limited["runs"][0].get("failure")))
    return made


def table(document):
    lines = [f"PyTorch {document['torch']}, {document['threads']} threads, {document['parameters'] / 1e6:.0f} million parameters", ""]
    for row in document["kernels"]:
        share = f"{row['share']:8.1%} of memory's speed" if "share" in row else ""
        lines.append(f"{row['name']:<20} {row['bytes_per_second'] / 1e9:7.1f} GB/s{share}")
    for dtype, rows in document["steps"].items():
        lines += ["", f"a step, {dtype}"]
        for row in rows:
            ratios = "".join(f"   {row[key]:.2f} of {key[9:].replace('_', ' ')}" for key in row if key.startswith("ratio_to_"))
            lines.append(f"{row['name']:<20} {1e3 * row['seconds']:9.1f} ms{ratios}")
    if "limit" in document:
        lines += limit_lines(document["limit"])
    return "\n".join([*lines, "", *targets.lines(document["targets"])])


def limit_lines(limited):
    yield ""
    yield (f"{limited['parameters'] / 1e6:.0f} million parameters, {format_size(limited['states_bytes'])} of states under "
           f"{format_size(limited['limit_bytes'])}")
    for run in limited["runs"]:
        seconds = ", ".join(f"{one:.2f}" for one in run["step_seconds"])
        yield f"{run['name']:<26} {seconds} s, peak {format_size(run['peak_bytes'])} {run.get('failure', '')}"
    if "bit_identical" in limited:
        yield "the same parameters, to the last bit" if limited["bit_identical"] else "OTHER PARAMETERS"


def command():
    """This command without --json FILE, which changes nothing and names a place of this machine."""
    words = sys.argv[1:]
    if "--json" in words:
        at = words.index("--json")
        del words[at:at + 2]
    return shlex.join(["terrace", "bench", "optimizer", *words])


def main():
    arguments = parse_arguments()
    arguments.terrace = find_terrace(arguments.terrace)
    document = {"format": "terrace-bench-optimizer", "version": 1, "torch": torch.__version__,
                "python": platform.python_version(), "threads": arguments.threads,
                "parameters": arguments.parameters * 10**6, "kernels": kernels(arguments),
                "steps": {name: steps(arguments, getattr(torch, name)) for name in ("float32", "bfloat16")}}
    try:
        document |= {"limit": under_a_limit(arguments)} if arguments.swap else {}
    except (CgroupUnavailable, SwapUnavailable) as error:
        print(f"optimizer.py: {error}", file=sys.stderr)
        return 4
    document["targets"] = wanted(document)
    commit = machine.commit(HERE)
    document |= {"machine": machine.describe(arguments.pool), "command": command()}
    document |= {"commit": commit} if commit else {}
    print(table(document))
    if arguments.json:
        arguments.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0 if document.get("limit", {}).get("bit_identical", True) else 1


if __name__ == "__main__":
    sys.exit(main())
