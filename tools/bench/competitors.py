"""One measured run of a workload: stock, under Terrace, with kernel swap, or with the bare preload.

Every competitor runs the same command in a fresh memory cgroup of ours; its peak is what the kernel charged,
for Terrace the launcher and the private daemon included. The limits differ in who sets them: kernel swap gets
its limit on that cgroup, Terrace is told it (`terrace run --limit`) and makes a cgroup below. A run that fails
is an outcome with its reason, not an exception: being killed for memory is a result too, and so is taking too long.
What was moved is known twice: from who moved it, and, for all in the same way, from the counters of the disk.
"""
import contextlib
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import disk_counters
import steady
from cgroup import MemoryCgroup
from swapfile import SwapFile, moved_bytes

HERE = Path(__file__).resolve().parent
PYTHON = "/usr/bin/python3"  # Debian's: the one that Debian's torch belongs to, whatever comes first in PATH
TRAIN = HERE / "workloads" / "train.py"


@dataclass
class Settings:
    terrace: Path          # the terrace command
    preload: Path          # libterrace_preload.so
    pool: Path             # directory for the pool and the swap file
    scratch: Path          # logs and results of the runs
    timeout_seconds: float = 3600
    program: Path = TRAIN  # the workload
    warm_up: int = 1       # first steps of a run that do not count
    steps: int = 0         # of a run; with them, what the counted ones moved is told apart. 0: not
    baseline_bytes: int = 0  # resident in the workload's program before it does anything


@dataclass
class Outcome:
    competitor: str
    wall_seconds: float
    peak_bytes: int | None = None
    limit_bytes: int | None = None
    result: dict | None = None                        # what the workload wrote
    moved: dict = field(default_factory=dict)          # bytes and counters, by name
    failure: str | None = None
    killed_for_memory: bool = False
    killed_before: int = 0                             # attempts that were killed for memory before this one
    timed_out: bool = False
    given_seconds: float | None = None                 # after which a run that timed out was ended
    finished_steps: list = field(default_factory=list)  # seconds of the steps of a run that timed out
    warm_up: int = 1                                   # first steps that do not count
    steady: dict = field(default_factory=dict)         # what those that count moved (steady.py)

    def died_as_baseline(self):
        """Kernel swap killed for memory or over its time: what the baseline can do is its result, and there are no
        bits to compare. Everything else that fails is a failure of the comparison, Terrace killed for memory first
        of all."""
        return self.competitor == "swap" and (self.killed_for_memory or self.timed_out)

    def kill_for_memory(self):
        self.killed_for_memory = True
        self.failure = "killed for memory: " + (self.failure or "a process of the job")

    def step_seconds(self):
        return [step["seconds"] for step in self.result["steps"]] if self.result else self.finished_steps

    def counted_seconds(self):
        """Without the warm-up. A run that made no step beyond it counts all but its first, or that one."""
        seconds = self.step_seconds()
        return seconds[self.warm_up:] or seconds[1:] or seconds

    def digest(self):
        """What must be equal to the last bit: of a training every loss and the hash of parameters and buffers, of
        other workloads the hash of their results."""
        if self.result is None:
            return None
        losses = [step.get("loss") for step in self.result["steps"]]
        return losses, self.result.get("state_sha256"), self.result.get("result_sha256")


class NoCgroup:
    """Stands in where no memory cgroup can be made: nothing is enforced, the program's own peak is all there is."""

    def command(self, arguments):
        return [str(word) for word in arguments]

    def peak_bytes(self):
        return None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def warm_page_cache():
    """So that no competitor pays for, or is charged with, reading PyTorch's libraries from disk. Returns the
    resident bytes of Python with those libraries and nothing else."""
    say = "import sys, torch, torchvision; sys.path.insert(0, sys.argv[1]); import train; print(train.peak_resident_bytes())"
    return int(subprocess.check_output([PYTHON, "-c", say, TRAIN.parent], text=True))


def run_stock(workload, settings, group=None):
    with group or MemoryCgroup() as place:
        return measure("stock", place, workload, settings)


def run_preload(workload, settings):
    with MemoryCgroup() as group:
        return measure("preload", group, workload, settings, environment=preloaded(settings.preload))


def run_terrace(workload, settings, limit_bytes, name="terrace", words=()):
    outcome = launch_terrace(workload, settings, ["--limit", str(limit_bytes), *words], MemoryCgroup())
    return limited(outcome, name, limit_bytes)


def run_terrace_in_dram(workload, settings, limit_bytes, name, words, environment):
    """With what the limit leaves to data as a budget, and no cgroup's limit: that would count NVM on nodes or tmpfs as well."""
    budget = ["--dram", str(limit_bytes - settings.baseline_bytes), *words]
    return limited(launch_terrace(workload, settings, budget, MemoryCgroup(), environment), name, limit_bytes)


def limited(outcome, name, limit_bytes):
    outcome.competitor = name
    outcome.limit_bytes = limit_bytes
    if outcome.moved.get("oom_kills"):
        outcome.kill_for_memory()
    return outcome


def launch_terrace(workload, settings, budget, group, environment=None):
    summary, name = settings.scratch / "summary.json", f"bench-{os.getpid()}"
    summary.unlink(missing_ok=True)
    launcher = ["env", *(f"{variable}={value}" for variable, value in environment.items())] if environment else []
    launcher += [settings.terrace, "run", "--name", name, *budget, "--pool", settings.pool, "--json-summary", summary, "--"]
    with group:
        outcome, watch = measure_watched("terrace", group, workload, settings, lambda: steady.job_row(settings.terrace, name), launcher)
    left = counters(summary)
    outcome.moved |= left
    outcome.steady = watch.grown(steady.totals_as_row(left)) if watch else {}
    return outcome


def run_swap(workload, settings, limit_bytes, swap_bytes, waits=False):
    # The cgroup goes first, so that no process holds swapped pages when swap is turned off.
    with SwapFile(settings.pool, swap_bytes), MemoryCgroup(limit_bytes, waits) as group:
        before = moved_bytes()
        outcome, watch = measure_watched("swap", group, workload, settings, swapped)
        after = moved_bytes()
        if group.oom_kills():
            outcome.kill_for_memory()
    outcome.limit_bytes = limit_bytes
    outcome.moved |= {"written_bytes": after[0] - before[0], "read_bytes": after[1] - before[1]}
    outcome.steady = watch.grown() if watch else {}
    return outcome


def swapped():
    written, read = moved_bytes()
    return {"written_bytes": written, "read_bytes": read}


def preloaded(library):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TERRACE_")}
    chain = [str(library), *filter(None, [os.environ.get("LD_PRELOAD")])]
    return kept | {"LD_PRELOAD": ":".join(chain)}


def measure_watched(name, group, workload, settings, look, launcher=()):
    """The outcome, and what watched its steps; None instead where nobody asked for that."""
    watch = steady.Watch(settings.scratch / f"{name}.log", settings.warm_up, settings.steps, look) if settings.steps else None
    (settings.scratch / f"{name}.log").unlink(missing_ok=True)  # steps of the run before are none of this one
    with watch or contextlib.nullcontext():
        return measure(name, group, workload, settings, launcher), watch


def measure(name, group, workload, settings, launcher=(), environment=None):
    result_file, log = settings.scratch / "result.json", settings.scratch / f"{name}.log"
    result_file.unlink(missing_ok=True)
    command = [*launcher, PYTHON, settings.program, *workload, "--json", result_file]
    outcome = Outcome(name, wall_seconds=0, warm_up=settings.warm_up)
    start, disk = time.monotonic(), disk_counters.moved_bytes(settings.pool)
    try:
        outcome.failure = run_logged(group.command(command), log, settings.timeout_seconds, environment)
    except subprocess.TimeoutExpired as late:
        outcome.timed_out, outcome.given_seconds, outcome.finished_steps = True, late.timeout, steps_in(log)
        outcome.failure = f"did not finish in {late.timeout:.0f} s, but {len(outcome.finished_steps)} steps"
    outcome.wall_seconds, outcome.peak_bytes = time.monotonic() - start, group.peak_bytes()
    outcome.moved = disk_counters.difference(disk, disk_counters.moved_bytes(settings.pool))
    if not outcome.failure:
        outcome.result = json.loads(result_file.read_text(encoding="utf-8"))
        outcome.peak_bytes = outcome.peak_bytes or outcome.result["peak_resident_bytes"]
    return outcome


def run_logged(command, log, timeout, environment):
    """None, or why it failed with the last lines it wrote. The caller's cgroup ends what is left running."""
    with open(log, "wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=environment)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
    if code == 0:
        return None
    tail = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-5:]
    return (f"ended by signal {-code}" if code < 0 else f"exit code {code}") + "".join("\n    " + line for line in tail)


def steps_in(log):
    """Seconds of the steps that a run has printed so far."""
    return [float(seconds) for seconds in re.findall(r"^step \d+ +([\d.]+) s", log.read_text(encoding="utf-8", errors="replace"), re.M)]


def counters(summary):
    """The job's counters from `terrace run --json-summary`; empty when the run left none."""
    try:
        return flatten(json.loads(summary.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def flatten(node):
    found = {}
    for name, value in node.items():
        found |= flatten(value) if isinstance(value, dict) else {name: value}
    return found


def typical_step(outcomes, with_first=False):
    """Median over the steps of all runs. By default without each run's warm-up, for every competitor alike: its first
    step builds kernels, caches and the heap, the next ones teach what repeats, and a training job has thousands of the
    others."""
    seconds = [second for outcome in outcomes for second in (outcome.step_seconds() if with_first else outcome.counted_seconds())]
    return median(seconds) if seconds else None


def note(text):
    print(text, file=sys.stderr, flush=True)
