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


def run(*options, limit=None):
    return subprocess.run([PROGRAM, "--directory", DIRECTORY, *map(str, options)], capture_output=True, text=True,
                          timeout=110, check=False, preexec_fn=limit, restore_signals=False)


def report_of(*options):
    path = DIRECTORY / "report.json"
    done = run("--quick", "--json", path, *options)
    assert done.returncode == 0, done.stderr
    return json.loads(path.read_text())


def check_link():
    """Where the file system has such files at all."""
    if "no file for O_DIRECT" in run("--quick", "--parts", "link").stderr:
        print("SKIP: no O_DIRECT here")
        return
    report = report_of("--parts", "link")
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
    report = report_of("--parts", "codecs,traces")
    assert len(report["traces"]) == 8
    assert report["format"] == "terrace-bench-advisor" and "link" not in report
    assert {"zvc", "zvc_exp", "rle", "csr8"} == set(report["codecs"]["by_codec"])
    check_link()
    check_refusals()
    return 0


if __name__ == "__main__":
    sys.exit(main())
