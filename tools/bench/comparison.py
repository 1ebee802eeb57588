"""All runs that one table compares: who takes turns, in which order, under which limits.

The first run, stock without a limit, gives the peak of memory that the kernel charges; limits are percentages of it.
"""
import argparse
import os
import sys
from pathlib import Path

import competitors
import drive_speed
import report

HERE = Path(__file__).resolve().parent


def ways_of(arguments):
    """What is compared under one limit: the name of each way, and what it adds to `terrace run`. With --sparse the
    advisor's choice, what could be forced instead, and neither; with --tiers where compressed data is kept."""
    if arguments.sparse:
        return {f"compress {codec}": ["--compress", codec] for codec in ("auto", "zvc", "zvc_exp", "off")}
    if arguments.tiers:
        kept = {f"kept {share}%": ["--tiers", f"compressed={share}%"] for share in (10, 20, 35)}
        return {"compress auto": ["--compress", "auto"], **kept, "compress off": ["--compress", "off"]}
    if arguments.policies is None:
        return {"terrace": []}
    asked = {name: ["--policy", name] for name in arguments.policies}
    return {"reactive": ["--policy", "reactive"], **(asked or {"scheduled": []})}


def ways_before_the_drive(memory, excess_bytes):
    """With --tiers: the drive alone, and NVM for half of what does not fit before it. What each adds to `terrace run`, and its
    environment; both have the same budget of DRAM."""
    mib = 1 << 20
    nvm = ["--tiers", memory.tiers(max(excess_bytes // 2 // mib, 4) * mib)]
    return {"drive alone": (["--compress", "off"], {}), "nvm before it": (["--compress", "off", *nvm], memory.environment)}


def policies(text):
    """`--policies a,b`: those that `terrace run --policy` takes; it says which there are."""
    names = [name.strip() for name in text.split(",")]
    if not all(names) or len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"{text!r} has an empty name or one twice; write policies with commas between them")
    return names


def add_scheduling_options(parser):
    parser.add_argument("--policies", type=policies, metavar="NAME[,NAME...]", default=[],
                        help="plan with these policies, each in a column beside reactive (default: the daemon's own, as `scheduled`)")
    parser.add_argument("--warm-up", type=int, metavar="N", help="leave the first N steps of a run out (4; 1 where a run has less than 6 steps)")


def set_warm_up(arguments, parser):
    """What repeats is known within three periods, and the plan is there within the fourth."""
    arguments.warm_up = (4 if arguments.steps >= 6 else 1) if arguments.warm_up is None else arguments.warm_up
    if not 0 < arguments.warm_up < max(arguments.steps, 2):
        parser.error(f"--warm-up {arguments.warm_up} leaves none of {arguments.steps} steps to count: say 1 to {arguments.steps - 1}")


def percentage(text):
    number = int(text.rstrip("%"))
    if not 10 <= number <= 100:
        raise argparse.ArgumentTypeError(f"{text} is not between 10 and 100 percent")
    return number


def find_terrace(asked):
    """The command asked for; else the one that started this script; else the one that it is installed with (bin/ beside
    share/); else the release build's."""
    own = HERE.parents[2] / "bin/terrace", HERE.parents[1] / "build/release/bin/terrace"
    candidates = [asked] if asked else [Path(os.environ.get("TERRACE_COMMAND") or own[0]), *own]
    for path in candidates:
        if path.is_file():
            return path.resolve()
    sys.exit(f"terrace bench: no terrace command at {candidates[-1]}; build it (cmake --workflow --preset release) "
             "or name it with --terrace")


def find_preload(asked, terrace):
    candidates = [asked] if asked else [terrace.parents[1] / place / "libterrace_preload.so"
                                        for place in ("lib/terrace", "lib/x86_64-linux-gnu", "lib")]
    return next((path.resolve() for path in candidates if path.is_file()), candidates[-1])


class Comparison:
    """All runs of one workload with one set of arguments; the first stock run is the reference for the peak and for
    the bits."""

    def __init__(self, model, workload, arguments, settings, swap_attempts=1, moves="out and in", memory=None):
        self.model, self.workload, self.arguments, self.settings = model, workload, arguments, settings
        self.swap_attempts = swap_attempts
        self.memory = memory  # NVM, of a comparison of tiers
        self.moves = moves  # what does not fit, in each step: "out and in", "in", or None, where a step needs little of it
        self.runs = []  # (fraction or None, outcome)
        self.drive_speeds = []  # as measured beside the runs

    def run(self):
        self._measure_drive()
        self._run_all()
        self._measure_drive()

    def _measure_drive(self):
        """Before and after: drives of guests change their speed from one minute to the next."""
        if self.arguments.policies is not None and self.moves:
            self.drive_speeds.append(drive_speed.speeds(self.settings.terrace, self.settings.pool))

    def bound_seconds(self, limit_bytes):
        """What a step takes that waits for the drive alone: what does not fit is moved once, beside the arithmetic, which takes
        what stock takes. {} where that is not known."""
        if not self.moves or not limit_bytes:
            return {}
        stock = competitors.typical_step(self.outcomes("stock"))
        excess = self.runs[0][1].peak_bytes - limit_bytes
        moving = drive_speed.transfer_seconds(excess, drive_speed.fastest(self.drive_speeds), self.moves == "out and in")
        return {} if moving is None or stock is None else {"transfer_seconds": moving, "bound_seconds": max(stock, moving)}

    def _run_all(self):
        reference = self._keep(None, competitors.run_stock(self.workload, self.settings))
        if reference.failure:
            sys.exit(f"terrace bench: {self.model} fails without any limit: {reference.failure}")
        for number in range(self.arguments.rounds):
            self._no_limit_round(number) if self.arguments.no_limit else self._limited_round(number, reference)

    def _limited_round(self, number, reference):
        for fraction in self.arguments.fractions:
            limit = reference.peak_bytes * fraction // 100 & ~0xfff
            turns = [lambda: competitors.run_stock(self.workload, self.settings)]
            turns += [lambda name=name, words=words: competitors.run_terrace(self.workload, self.settings, limit, name, words)
                      for name, words in ways_of(self.arguments).items()]
            if self.memory:
                turns += [lambda name=name, way=way: competitors.run_terrace_in_dram(self.workload, self.settings, limit, name, *way)
                          for name, way in ways_before_the_drive(self.memory, reference.peak_bytes - limit).items()]
            if not self.arguments.no_swap and not self.arguments.sparse:
                turns.append(lambda: self._run_swap(limit, 2 * reference.peak_bytes))
            for turn in turns if number % 2 == 0 else reversed(turns):
                self._keep(fraction, turn())

    def _run_swap(self, limit, swap_bytes):
        """Whether the kernel gives up on a job that thrashes is chance: of the same job it kills one run and not the next.
        In the last attempt of several it may not kill (cgroup version 1)."""
        for attempt in range(self.swap_attempts):
            outcome = competitors.run_swap(self.workload, self.settings, limit, swap_bytes,
                                           0 < attempt == self.swap_attempts - 1)
            outcome.killed_before = attempt
            if not outcome.killed_for_memory:
                break
        return outcome

    def _no_limit_round(self, number):
        turns = [competitors.run_stock, competitors.run_preload]
        for turn in turns if number % 2 == 0 else reversed(turns):
            self._keep(100, turn(self.workload, self.settings))

    def _keep(self, fraction, outcome):
        self.runs.append((fraction, outcome))
        competitors.note(report.progress(self.model, fraction, outcome))
        return outcome

    def outcomes(self, competitor, fraction=None):
        return [outcome for at, outcome in self.runs
                if outcome.competitor == competitor and (fraction is None or at == fraction)]
