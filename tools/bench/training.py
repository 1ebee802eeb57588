#!/usr/bin/python3
"""terrace bench training: what a training job costs in less memory than it needs.

First a stock run of each network without a limit gives the peak of the memory that the kernel charges. Then each fraction
of that peak becomes a limit, and the runs take turns: stock without a limit, Terrace under the limit, and kernel swap under
the same limit. The order is reversed every round, and all runs belong to one invocation, so that a noisy machine is noisy
for all of them. Terrace runs twice: `reactive` plans nothing, and `scheduled` follows the daemon's policy. --policies
replaces the two by others. The table has a bound, too: the drive moves out and in, once a step, what does not fit, as fast
as the same invocation measures it, while the processors compute as long as in stock's step.

Every run must give the losses and the parameters of the first one, to the last bit, otherwise the exit code is 1. Kernel
swap alone may be killed for memory or run out of time: the table then says so. The steps of a run that is out of time take
more than that time, spread over all of them: the table gives it as >120.

The headline is the median of each run's steps from the fifth on (--warm-up), since Terrace knows a step once it has come
three times. The median of all steps stands beside it. What a step moves, and how long a step is stalled, are figures of the
steps from the fifth on. `in time` is the share of what came back that was there before its first touch.

    terrace bench training --json training.json            everything (some hours on two cores)
    terrace bench training --models unet --fractions 60
    terrace bench training --policies g10,joint            a column for each policy
    terrace bench training --quick                         small networks, for CI
    terrace bench training --no-limit                      the bare preload against stock malloc, in pairs
    terrace bench training --sparse                        a ReLU network: compression chosen, forced, and off
    terrace bench training --sparse --disk-rate 400M       the same with a disk of 400 MiB/s
    terrace bench tiers --disk-rate 400M                   a ReLU network: compressed data kept in DRAM, and not; NVM before
                                                           the drive (memory slowed down, or --nvm PLACE), and the drive alone
    terrace bench phases                                   training, evaluation and a last batch of another size in
                                                           turn; and a GAN. A step is an epoch there, or an update of both
"""
import argparse
import contextlib
import dataclasses
import json
import shlex
import signal
import sys
import tempfile
from pathlib import Path

import competitors
import machine
import report
from cgroup import CgroupUnavailable
from comparison import Comparison, add_scheduling_options, find_preload, find_terrace, percentage, set_warm_up
from disk_rate import DiskRate
from sizes import parse_size
from slow_memory import SlowMemory
from swapfile import SwapUnavailable

HERE = Path(__file__).resolve().parent
FULL = {"densenet121": [], "transformer": [], "unet": [], "relu_cnn": ["--batch", "96"], "squeezenet": []}
QUICK = {"densenet121": ["--batch", "16", "--size", "96"], "transformer": ["--batch", "8", "--size", "128"],
         "unet": ["--batch", "4", "--size", "192"], "relu_cnn": ["--batch", "8"],
         "squeezenet": ["--batch", "16"]}
RELU_MODELS = ["relu_cnn", "squeezenet"]
DEFAULT_MODELS = ["densenet121", "transformer", "unet"]
DEFAULT_FRACTIONS = [80, 60, 40, 25]
# Of programs with several phases: which workload, and its words, in full and with --quick.
PHASES = {"densenet121": ("phases.py", ["--model", "densenet121"], ["--batch", "16", "--size", "96"]),
          "gan": ("gan.py", [], ["--size", "64"]),
          "transformer": ("phases.py", ["--model", "transformer"], ["--batch", "8", "--size", "128"]),
          "unet": ("phases.py", ["--model", "unet", "--batch", "6"], ["--batch", "4", "--size", "192"])}
DEFAULT_PHASES = ["unet", "gan"]


def parse_arguments(words=None):
    words = sys.argv[1:] if words is None else words
    name = next((name for name in ("tiers", "phases") if f"--{name}" in words), "training")
    all_models = PHASES if name == "phases" else FULL
    parser = argparse.ArgumentParser(prog=f"terrace bench {name}", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=sorted(all_models),
                        help=f"train these ({' '.join(DEFAULT_PHASES if name == 'phases' else DEFAULT_MODELS)}; with --sparse or --tiers {' '.join(RELU_MODELS)})")
    parser.add_argument("--fractions", nargs="+", type=percentage,
                        help=f"limit memory to so many percent of stock's peak ({' '.join(map(str, DEFAULT_FRACTIONS))}; 60 with --quick or --sparse; 60 40 for phases)")
    parser.add_argument("--steps", type=int, help="train so many steps (10; 8 for phases; 5 where nothing is planned)")
    parser.add_argument("--rounds", type=int, default=1, help="repeat the whole comparison so often (%(default)s)")
    parser.add_argument("--timeout", type=int, default=600, metavar="SECONDS", help="end a run that takes longer (600)")
    parser.add_argument("--no-swap", action="store_true", help="leave out kernel swap (it needs root and is slow)")
    parser.add_argument("--no-limit", action="store_true", help="compare the bare preload with stock malloc, in pairs")
    parser.add_argument("--sparse", action="store_true", help="compare compression chosen, forced and off")
    parser.add_argument("--tiers", action="store_true", help="compare a tier of compressed data in DRAM, or NVM, with the drive alone")
    parser.add_argument("--phases", action="store_true", help="train programs of several phases")
    parser.add_argument("--quick", action="store_true", help="train networks of about 1 GiB")
    add_scheduling_options(parser)
    parser.add_argument("--pool", type=Path, default=Path("/var/tmp"), help="put pool and swap file into this directory (/var/tmp)")
    parser.add_argument("--disk-rate", type=parse_size, metavar="SIZE",
                        help="let the pool's disk read and write at most that much a second, each way (needs root)")
    parser.add_argument("--nvm", metavar="PLACE", help="with --tiers: put NVM into a directory on persistent memory, or on node1 (default: tmpfs, slowed down)")
    parser.add_argument("--nvm-rate", type=parse_size, metavar="SIZE",
                        help="slow NVM down to so much a second (2G without --nvm, else not at all)")
    parser.add_argument("--terrace", type=Path, help="measure this terrace command")
    parser.add_argument("--preload", type=Path, help="measure this library with --no-limit")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args(words)
    fill_in(arguments)
    if arguments.steps < 2 or arguments.rounds < 1:
        parser.error("--steps must be at least 2 and --rounds at least 1: the first step is not counted")
    if arguments.timeout < 1:
        parser.error("--timeout must be at least 1 second")
    if not arguments.pool.is_dir():
        parser.error(f"--pool {arguments.pool} is not a directory")
    if arguments.sparse and arguments.no_limit:
        parser.error("--sparse compares under a limit: leave out --no-limit")
    if arguments.tiers and (arguments.sparse or arguments.no_limit):
        parser.error("--tiers compares ways of its own under a limit: leave out --sparse and --no-limit")
    if (arguments.nvm or arguments.nvm_rate) and not arguments.tiers:
        parser.error("--nvm and --nvm-rate are of terrace bench tiers: leave them out")
    if arguments.nvm and not arguments.nvm.startswith("node") and not Path(arguments.nvm).is_dir():
        parser.error(f"--nvm {arguments.nvm} is not a directory; name one on persistent memory, or nodes (node1)")
    if arguments.phases and (arguments.sparse or arguments.no_limit or arguments.tiers):
        parser.error("--phases runs programs of its own under a limit: leave out --sparse, --no-limit and --tiers")
    if arguments.policies and (arguments.sparse or arguments.no_limit or arguments.tiers):
        parser.error("--policies compares plans: leave out --sparse, --no-limit and --tiers, which compare other things")
    if arguments.sparse or arguments.no_limit or arguments.tiers:
        arguments.policies = None
    set_warm_up(arguments, parser)
    return arguments


def fill_in(arguments):
    """What was not asked for."""
    has_relu, plans = arguments.sparse or arguments.tiers, not (arguments.sparse or arguments.tiers or arguments.no_limit)
    arguments.models = arguments.models or (RELU_MODELS if has_relu else DEFAULT_PHASES if arguments.phases else DEFAULT_MODELS)
    fractions = [60, 40] if arguments.phases else DEFAULT_FRACTIONS
    arguments.fractions = arguments.fractions or ([60] if arguments.quick or has_relu else fractions)
    if arguments.steps is None:
        arguments.steps = 8 if arguments.phases else 10 if plans else 5
    if arguments.warm_up is None and not plans:
        arguments.warm_up = 1


def workload_of(model, arguments):
    if arguments.phases:
        _, words, quick = PHASES[model]
        return [*words, *(quick if arguments.quick else []), "--steps", str(arguments.steps)]
    sizes = (QUICK if arguments.quick else FULL)[model]
    return ["--model", model, *sizes, "--steps", str(arguments.steps)]


def program_of(model, arguments):
    return competitors.TRAIN.with_name(PHASES[model][0]) if arguments.phases else competitors.TRAIN


def compare_all(arguments):
    terrace = find_terrace(arguments.terrace)
    baseline = competitors.warm_page_cache()
    disk = DiskRate(arguments.pool, arguments.disk_rate) if arguments.disk_rate else contextlib.nullcontext()
    nvm = SlowMemory(arguments.nvm, arguments.nvm_rate) if arguments.tiers else contextlib.nullcontext()
    with disk, nvm as memory, tempfile.TemporaryDirectory(prefix="terrace-bench-") as scratch:
        settings = competitors.Settings(terrace, find_preload(arguments.preload, terrace), arguments.pool, Path(scratch),
                                        arguments.timeout, warm_up=arguments.warm_up, baseline_bytes=baseline,
                                        steps=0 if arguments.policies is None else arguments.steps)
        comparisons = [Comparison(model, workload_of(model, arguments), arguments,
                                  dataclasses.replace(settings, program=program_of(model, arguments)), memory=memory) for model in arguments.models]
        for comparison in comparisons:
            comparison.run()
    return comparisons


def mode_of(arguments):
    modes = {"no-limit": arguments.no_limit, "sparse": arguments.sparse, "tiers": arguments.tiers, "phases": arguments.phases}
    return next((mode for mode, is_asked in modes.items() if is_asked), "limit")


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that swap and cgroups are cleaned up
    arguments = parse_arguments()
    try:
        comparisons = compare_all(arguments)
    except (CgroupUnavailable, SwapUnavailable) as error:
        print(f"training.py: {error}", file=sys.stderr)
        return 4
    except KeyboardInterrupt:
        return 130
    document = report.document(comparisons, mode_of(arguments))
    document |= {"machine": machine.describe(arguments.pool), "command": shlex.join(["terrace", "bench", "training", *sys.argv[1:]])}
    document |= {"commit": machine.commit(HERE)} if machine.commit(HERE) else {}
    print(report.table(document))
    if arguments.json:
        arguments.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0 if document["all_bit_identical"] else 1


if __name__ == "__main__":
    sys.exit(main())
