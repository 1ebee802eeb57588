"""The patterns of memory use that run under a limit: programs, sizes, and what is wanted of Terrace.

Wanted of all: never slower than the kernel's own swap under the same limit. Wanted where the program only reads its
data: each byte is written to the disk once at most, as what came back unchanged still has its copy there. Wanted of
weights that are read in order: a pass that reads what does not fit, once, and takes no longer than that or stock takes,
but for a tenth. Wanted of random rows: never slower for planning, and no step seen, as there is none.
"""
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import drive_speed
from competitors import PYTHON, note

WORKLOADS = Path(__file__).resolve().parents[1] / "workloads"
# Of the drive that `inference` is made for. A slower one is measured, and a pass computes for longer.
READ_BYTES_PER_SECOND = 1.7e9


@dataclass(frozen=True)
class Pattern:
    about: str
    cases: dict             # name: arguments of the workload; the first one always runs
    quick: list             # further arguments with --quick
    fractions: list         # percent of stock's peak
    steps: int
    only_reads: list = field(default_factory=list)  # cases that never change their data once it is made
    option: tuple = ()      # the option that adds the other cases, and its help
    is_planned: bool = False      # beside Terrace that only reacts
    moves: str | None = None      # of what does not fit, in each step (comparison.py)
    most_to_bound: float | None = None  # what a step may take, times the drive's bound or stock's step if that is longer
    never_periodic: bool = False  # no step may be seen in it


LIMITED = {
    "inference": Pattern(
        "24 matrices of 64 MiB that never change, read in order in every pass", {"inference": []},
        ["--matrices", "32", "--width", "1792"], [50], 10, ["inference"], is_planned=True, moves="in", most_to_bound=1.1),
    "embedding": Pattern(
        "a table of 1.46 GiB, 40,960 random rows of 512 bytes a step by Zipf's law",
        {"gather": [], "update": ["--update"]}, ["--rows", "800000", "--lookups", "512"], [50, 25], 10, ["gather"],
        ("--update", "also measure steps that write the rows back"), is_planned=True, never_periodic=True),
    "matmul": Pattern(
        "one numpy.matmul of 9000 x 9000 fp32", {"matmul": []}, ["--width", "4000"], [40], 1),
    "gups": Pattern(
        "random updates of words in 2 GiB, 90% of them in 20% of the table",
        {"contiguous": [], "scattered": ["--scattered"]}, ["--bytes", str(400 << 20), "--updates", "512"], [50, 30], 6, [],
        ("--scattered", "also measure a hot part that lies in pages all over the table")),
    "merge": Pattern(
        "a merge of 16 sorted runs in memory, 1 GiB", {"merge": []}, ["--bytes", str(400 << 20)], [50, 25], 2, ["merge"]),
    "fft": Pattern(
        "a Fourier transform of 8192 x 8192 complex64 along rows and columns", {"fft": []}, ["--width", "4096"], [50], 1),
    "arrays": Pattern(
        "2,000 random lines a step of 400 arrays of 4 MiB", {"arrays": [], "counters": ["--counters"]},
        ["--arrays", "100"], [50], 6, ["arrays"],
        ("--counters", "also measure arrays that all begin as one value, and are changed line by line from the beginning")),
    "transpose": Pattern(
        "a matrix of 9000 x 9000 float64 made into its transpose", {"transpose": []}, ["--width", "4000"], [50], 3),
    "argsort": Pattern(
        "25,000,000 words sorted by an index of them", {"argsort": []}, ["--words", "8000000"], [50], 3),
    "alignment": Pattern(
        "the best alignment of two sequences of 14,000: a table of 748 MiB that begins as zeroes", {"alignment": []},
        ["--length", "5000"], [50], 3),
    "join": Pattern(
        "400,000 keys a step looked for in 30,000,000 sorted ones, and summed by group", {"join": []},
        ["--rows", "8000000", "--keys", "100000"], [50], 4),
}


def workload_of(name, case, arguments, terrace):
    """The words after the workload's program."""
    pattern = LIMITED[name]
    words = [*pattern.cases[case], *(pattern.quick if arguments.quick else [])]
    if name == "inference":
        words += ["--batch", str(arguments.batch or calibrated_batch(words, terrace, arguments.pool))]
    return [*words, "--steps", str(arguments.steps)]


def calibrated_batch(words, terrace, pool):
    """The batch with which a pass computes a fifth longer than the drive takes to read half of the weights."""
    measured = drive_speed.read_bytes_per_second(terrace, pool)
    speed = min(measured or READ_BYTES_PER_SECOND, READ_BYTES_PER_SECOND)
    known = f"reads {measured / 1e9:.2f} GB/s" if measured else "cannot be measured (terrace doctor)"
    note(f"the drive of {pool} {known}; the batch is for {speed / 1e9:.2f} GB/s")
    matrices, width = (int(words[words.index(name) + 1]) if name in words else default
                       for name, default in (("--matrices", 24), ("--width", 4096)))
    seconds = 1.2 * matrices * width * width * 4 / 2 / speed
    command = [PYTHON, WORKLOADS / "inference.py", *words, "--calibrate", f"{seconds:.4f}"]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
