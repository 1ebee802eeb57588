"""The patterns that need no limit: a program stock and under `terrace run`, where memory is plenty.

first-touch   threads touch fresh memory, each page once. Beside the throughput: the longest fork() and the longest
              malloc(1 MiB) of another thread meanwhile, each in runs of its own. The thread that calls malloc has
              real-time priority where the system allows it, so that it waits for malloc and not for its turn
sparse        an array of zeros of which little is touched: time, and resident memory
"""
import json
import os
import subprocess
from dataclasses import dataclass
from statistics import median

import report
import targets
from competitors import PYTHON, note
from pattern_list import WORKLOADS
from report import number

GIB = 1 << 30


@dataclass(frozen=True)
class Probe:
    about: str
    dram_bytes: int


PROBES = {
    "first-touch": Probe("1, 2 and 4 threads touch 1.5 GiB of fresh memory, inside a budget that has room for it", 6 * GIB),
    "sparse": Probe("4 GiB of zeros of which 2,048 places are touched", 512 << 20),
}
THREADS = (1, 2, 4)
LATENCIES = {"fork": ("longest_fork_seconds", 0.1), "malloc": ("longest_malloc_seconds", 0.001)}  # and what is wanted


class Failed(Exception):
    """A run ended with an error or took too long; the text says which and what it wrote."""


def measure(arguments, terrace):
    return first_touch(arguments, terrace) if arguments.name == "first-touch" else sparse(arguments, terrace)


def under_terrace(terrace, pool, *options):
    return [terrace, "run", *options, "--pool", pool, "--"]


def in_turns(arguments, ways, program):
    """`ways`: what stands before the program, by name. What every run wrote, by name; every second round is reversed."""
    results = {name: [] for name in ways}
    for number_of_round in range(arguments.rounds):
        for name in ways if number_of_round % 2 == 0 else reversed(ways):
            results[name].append(run([*ways[name], *program], arguments.timeout))
            note(f"round {number_of_round + 1}, {name}: {' '.join(map(str, program[-4:]))}")
    return results


def run(command, timeout):
    """The JSON in the last line that the command writes."""
    words = list(map(str, command))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TERRACE_")}
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=timeout, env=environment, check=False)
    except subprocess.TimeoutExpired as late:
        raise Failed(f"{' '.join(words)} did not finish in {timeout} s; --timeout gives it longer") from late
    if done.returncode:
        raise Failed(f"{' '.join(words)} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def first_touch(arguments, terrace):
    program = terrace.parent / "terrace-first-touch"
    if not program.is_file():
        raise Failed(f"no {program}: build it (cmake --workflow --preset release) or name an installed terrace with --terrace")
    ways = {"stock": [], "terrace": under_terrace(terrace, arguments.pool, "--dram", arguments.dram)}
    size = ["--mib", 256 if arguments.quick else 1536]
    rows, wanted = [], []
    for threads in THREADS:
        words = [program, "--threads", threads, *size]
        for probe in ("none", *LATENCIES):
            results = in_turns(arguments, ways, [*words, "--probe", probe])
            row, target = throughput(threads, results) if probe == "none" else latency(threads, probe, results)
            rows.append(row)
            wanted.append(target)
    pages = {result["touched_pages"] for row in rows for results in row["runs"].values() for result in results}
    return {"format": "terrace-bench-first-touch", "version": 1, "all_equal": len(pages) == 1, "rows": rows, "targets": wanted}


def throughput(threads, results):
    """GB/s; the ratio is the median of the rounds' ratios, as the machine drifts."""
    speed = {name: [one["touched_bytes"] / one["seconds"] for one in runs] for name, runs in results.items()}
    ratio = median(ours / theirs for ours, theirs in zip(speed["terrace"], speed["stock"]))
    row = {"what": f"{threads} threads, GB/s", "stock": median(speed["stock"]) / 1e9, "terrace": median(speed["terrace"]) / 1e9}
    return row | {"ratio_to_stock": ratio, "runs": results}, targets.at_least(f"{threads} threads: GB/s, to stock", ratio, 0.95)


def latency(threads, probe, results):
    """The longest of all rounds, in milliseconds."""
    name, limit = LATENCIES[probe]
    longest = {way: max(one[name] for one in runs) for way, runs in results.items()}
    preferred = all(one["real_time_probe"] for runs in results.values() for one in runs)
    what = f"{threads} threads, longest {probe}{' (real-time)' if preferred else ''}, ms"
    row = {"what": what, "stock": longest["stock"] * 1e3, "terrace": longest["terrace"] * 1e3}
    return (row | {"runs": results},
            targets.at_most(f"{threads} threads: longest {probe}, ms", longest["terrace"] * 1e3, limit * 1e3))


def sparse(arguments, terrace):
    ways = {"stock": [], "terrace": under_terrace(terrace, arguments.pool),
            "terrace --dram": under_terrace(terrace, arguments.pool, "--dram", arguments.dram)}
    words = [PYTHON, WORKLOADS / "sparse.py", *(["--bytes", GIB, "--touches", 512] if arguments.quick else [])]
    results = in_turns(arguments, ways, words)
    rows = [{"what": "first step, ms", "runs": results}, {"what": "later steps, ms"}, {"what": "resident after the first, MiB"}]
    for way, runs in results.items():
        rows[0][way] = median(one["steps"][0]["seconds"] for one in runs) * 1e3
        rows[1][way] = median(step["seconds"] for one in runs for step in one["steps"][1:]) * 1e3
        rows[2][way] = median(one["resident_bytes"][0] for one in runs) / 2**20
    digests = {one["result_sha256"] for runs in results.values() for one in runs}
    return {"format": "terrace-bench-sparse", "version": 1, "all_equal": len(digests) == 1, "rows": rows,
            "targets": sparse_targets(rows, arguments.dram)}


def sparse_targets(rows, dram_bytes):
    """What is not touched costs next to nothing: at most twice stock's time and memory, and never more than the budget."""
    wanted = [targets.at_most(f"{way}: {row['what'].split(',')[0]}, to stock", row[way] / row["stock"], 2)
              for way in ("terrace", "terrace --dram") for row in rows]
    return [*wanted, targets.at_most("terrace --dram: resident, to the budget", rows[2]["terrace --dram"] * 2**20 / dram_bytes, 1)]


def table(result):
    ways = [name for name in ("stock", "terrace", "terrace --dram") if name in result["rows"][0]]
    cells = [["", *ways], *([row["what"], *(number(row[way], 2) for way in ways)] for row in result["rows"])]
    where = report.foot(result) + f", pool in {result['machine']['disk']['directory']}"
    equal = [] if result["all_equal"] else ["the runs did NOT give the same result"]
    return "\n".join([*report.aligned(cells), *targets.lines(result["targets"]), *equal, "", where])
