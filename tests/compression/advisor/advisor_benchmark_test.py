#!/usr/bin/python3
"""`terrace bench advisor --quick` runs to its end, and its JSON has what people and tools read from it.

    advisor_benchmark_test.py PROGRAM DIRECTORY    shape of the report, refusals; nothing about times
"""
import json
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

PROGRAM, DIRECTORY = sys.argv[1], Path(sys.argv[2])
TRACES = ["regret of a trace", "over raw's"]
CODECS = ["compress time predicted", "decompress time predicted", "a link of 2 GB/s predicted"]


def run(*options, limit=None):
    return subprocess.run([PROGRAM, "--directory", DIRECTORY, *map(str, options)], capture_output=True, text=True,
                          timeout=110, check=False, preexec_fn=limit, restore_signals=False)


def report_of(*options):
    path = DIRECTORY / "report.json"
    done = run("--quick", "--json", path, *options)
    assert done.returncode == 0, done.stderr
    return json.loads(path.read_text()), done.stdout


def check_targets(report, printed, expected):
    names = [target["name"] for target in report["targets"]]
    assert len(names) == len(expected), names
    for name, part in zip(names, expected):
        assert part in name and name in printed, (name, part)
    for target in report["targets"]:
        assert target["at_most"] and target["met"] == (target["value"] <= target["target"]), target
    assert printed.count("MISSED") == sum(not target["met"] for target in report["targets"])


def check_values(report):
    values = {target["name"]: target["value"] for target in report["targets"]}
    rows = [row for trace in report["traces"].values() for row in trace]
    assert values["worst regret of a trace, link, schedule"] == max(row["regret"] for row in rows)
    assert values["worst time over raw's"] == max(row["against_raw"] for row in rows)
    assert len(report["traces"]) == 8 and len(rows) == 8 * 5 * 3, len(rows)


def check_link():
    """Where the file system has such files at all."""
    if "no file for O_DIRECT" in run("--quick", "--parts", "link").stderr:
        print("SKIP: no O_DIRECT here")
        return
    report, printed = report_of("--parts", "link")
    check_targets(report, printed, ["way out predicted", "way back predicted"])
    assert report["link"]["out_gb_per_s"] > 0

    def small_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    full = run("--quick", "--parts", "link", limit=small_files)
    assert full.returncode == 1 and "no room for the file: File too large" in full.stderr, full


def check_refusals():
    for options in (["--parts", "codec"], ["--parts", "codecs,trace"], ["--parts", ""], ["--parts", "link", "--link", "2"],
                    ["--link", "0"], ["--colour", "red"], ["--json"]):
        done = run("--quick", *options)
        assert done.returncode == 2 and done.stderr and not done.stdout, (options, done)
    unwritable = run("--quick", "--json", DIRECTORY / "nowhere" / "report.json")
    assert unwritable.returncode == 2 and "--json" in unwritable.stderr and not unwritable.stdout, unwritable


def main():
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    DIRECTORY.mkdir(parents=True)
    report, printed = report_of("--parts", "codecs,traces")
    assert report["format"] == "terrace-bench-advisor" and "link" not in report
    assert {"zvc", "zvc_exp", "rle", "csr8"} == set(report["codecs"]["by_codec"])
    check_targets(report, printed, CODECS + TRACES)
    check_values(report)
    check_link()
    check_refusals()
    return 0


if __name__ == "__main__":
    sys.exit(main())
