#!/usr/bin/python3
"""terrace bench NAME for patterns of memory use: what they cost in less memory than they need, and when there is plenty.

inference, embedding, matmul, gups, merge, fft, arrays, transpose, argsort, alignment and join run under a limit. First a
stock run without a limit gives the peak of the memory that the kernel charges. Then each fraction of that peak becomes a
limit, and three runs take turns: stock without a limit, Terrace under the limit, and kernel swap under the same limit. The
order is reversed every round. The workload itself takes the time of each step. The first step of a run does not count,
unless it is the only one.

Every run must give the digest of the first one, otherwise the exit code is 1. Kernel swap alone may be killed for memory,
in three attempts, or run out of time: the table then says so. With cgroup version 1 the kernel does not kill in the third
attempt: an allocation beyond the limit waits, as it does under `terrace run --limit`.

inference and embedding run twice under Terrace: `reactive` plans nothing, and `scheduled` follows the daemon's policy.
--policies replaces the two by others. The steps of these two benchmarks count from the fifth on. The table of inference
has a bound, too: the time that the drive needs to read what does not fit.

Terrace's own counters say how many bytes Terrace wrote and read; the kernel's counters of swapped pages say it for kernel
swap. The table also has what the disk counted meanwhile, which includes what other programs did.

first-touch and sparse run with plenty of memory: the same program stock and under `terrace run`, in turns.
"""
import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # comparison.py, machine.py and the like
import competitors
import machine
import pattern_probes
import patterns_report
from cgroup import CgroupUnavailable
from comparison import Comparison, add_scheduling_options, find_terrace, percentage, set_warm_up
from pattern_list import LIMITED, WORKLOADS, workload_of
from sizes import parse_size
from swapfile import SwapUnavailable

HERE = Path(__file__).resolve().parent


def whole_number(smallest):
    def parse(text):
        if not text.isascii() or not text.isdigit() or int(text) < smallest:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {smallest}")
        return int(text)
    return parse


def directory(text):
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text} is not a directory; name one on the disk to use, such as /var/tmp")
    return Path(text)


def new_file(text):
    path = Path(text)
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text} cannot be written; name a file in a directory that can")
    return path


def parse_arguments(words=None):
    parser = argparse.ArgumentParser(prog="terrace bench", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    names = parser.add_subparsers(dest="name", metavar="NAME", required=True)
    for name, pattern in LIMITED.items():
        add_limited(new_verb(names, name, pattern.about), name, pattern)
    for name, probe in pattern_probes.PROBES.items():
        verb = new_verb(names, name, probe.about)
        verb.add_argument("--dram", type=parse_size, default=probe.dram_bytes, metavar="SIZE",
                          help=f"the budget of `terrace run` ({probe.dram_bytes >> 20}M)")
    arguments = parser.parse_args(words)
    if arguments.name in LIMITED:
        set_sizes(arguments, LIMITED[arguments.name])
        if LIMITED[arguments.name].is_planned:
            set_warm_up(arguments, parser)
    return arguments


def set_sizes(arguments, pattern):
    """What was not asked for; with --quick one fraction, and two steps that count."""
    arguments.fractions = arguments.fractions or pattern.fractions[:1 if arguments.quick else None]
    arguments.steps = arguments.steps or (min(pattern.steps, 6 if pattern.is_planned else 3) if arguments.quick else pattern.steps)
    arguments.cases = list(pattern.cases)[:None if arguments.all_cases else 1]
    arguments.policies = arguments.policies if pattern.is_planned else None


def new_verb(names, name, about):
    verb = names.add_parser(name, help=about, description=f"{about}.\n\n{__doc__.split(chr(10), 2)[2]}",
                            formatter_class=argparse.RawDescriptionHelpFormatter)
    verb.add_argument("--rounds", type=whole_number(1), default=1 if name in LIMITED else 5, metavar="N",
                      help="repeat the whole comparison so often (%(default)s)")
    verb.add_argument("--quick", action="store_true", help="measure small sizes: this shows that it works, and its figures say little")
    verb.add_argument("--pool", type=directory, default=Path("/var/tmp"), metavar="DIR", help="put pool and swap file into this directory (/var/tmp)")
    verb.add_argument("--timeout", type=whole_number(1), default=600, metavar="SECONDS", help="end a run that takes longer (600)")
    verb.add_argument("--terrace", type=Path, metavar="FILE", help="measure this terrace command")
    verb.add_argument("--json", type=new_file, metavar="FILE")
    return verb


def add_limited(verb, name, pattern):
    verb.add_argument("--fractions", nargs="+", type=percentage, metavar="PERCENT",
                      help=f"limit memory to so many percent of stock's peak ({' '.join(map(str, pattern.fractions))})")
    verb.add_argument("--steps", "--passes", type=whole_number(1), metavar="N",
                      help=f"run so many steps; the first does not count unless it is the only one ({pattern.steps})")
    verb.add_argument("--no-swap", action="store_true", help="leave out kernel swap (it needs root and is slow)")
    if pattern.option:
        verb.add_argument(pattern.option[0], dest="all_cases", action="store_true", help=pattern.option[1])
    if pattern.is_planned:
        add_scheduling_options(verb)
    if name == "inference":
        verb.add_argument("--batch", type=whole_number(1), metavar="N",
                          help="multiply the weights with N columns (default: as many as make a pass compute a fifth longer than half of the "
                               "weights take to read, at 1.7 GB/s or what `terrace doctor` reads from the pool's drive, if that is less)")
    verb.set_defaults(all_cases=False, sparse=False, tiers=False, no_limit=False)  # the last three: of a training comparison only
    if not pattern.is_planned:
        verb.set_defaults(policies=None, warm_up=1)


def compare_limited(arguments, settings):
    name = arguments.name
    settings.program = WORKLOADS / f"{name}.py"
    # Once for nothing: so that no run pays for, or is charged with, reading the libraries from disk.
    subprocess.run([competitors.PYTHON, settings.program, "--help"], check=True, stdout=subprocess.DEVNULL)
    comparisons = []
    for case in arguments.cases:
        comparisons.append(Comparison(case, workload_of(name, case, arguments, settings.terrace), arguments, settings, swap_attempts=3,
                                      moves=LIMITED[name].moves))
        comparisons[-1].run()
    return patterns_report.document(name, comparisons)


def measure(arguments):
    terrace = find_terrace(arguments.terrace)
    if arguments.name not in LIMITED:
        return pattern_probes.measure(arguments, terrace)
    with tempfile.TemporaryDirectory(prefix="terrace-bench-") as scratch:
        return compare_limited(arguments, competitors.Settings(
            terrace, Path(), arguments.pool, Path(scratch), arguments.timeout, warm_up=arguments.warm_up,
            steps=0 if arguments.policies is None else arguments.steps))


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that swap and cgroups are cleaned up
    arguments = parse_arguments()
    try:
        document = measure(arguments)
    except (CgroupUnavailable, SwapUnavailable) as error:
        print(f"terrace bench {arguments.name}: {error}", file=sys.stderr)
        return 4
    except pattern_probes.Failed as error:
        print(f"terrace bench {arguments.name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    commit = machine.commit(HERE)
    document |= {"machine": machine.describe(arguments.pool), "command": shlex.join(["terrace", "bench", *sys.argv[1:]])}
    document |= {"commit": commit} if commit else {}
    print((patterns_report if arguments.name in LIMITED else pattern_probes).table(document))
    if arguments.json:
        arguments.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0 if document["all_equal"] else 1


if __name__ == "__main__":
    sys.exit(main())
