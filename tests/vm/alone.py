"""An ordinary user without the service: pages move once /dev/userfaultfd is open to her, and not before."""
import json
import sys
from pathlib import Path

from machine import MEDIA, RUN, Skipped, attempt, check, run, user

DEVICE = Path("/dev/userfaultfd")


def work_of(who, *words):
    """A job in a daemon of its own that ends by itself; its summary and what it said."""
    summary, progress = RUN / "summary.json", RUN / "alone.progress"
    for file in (summary, progress):
        file.unlink(missing_ok=True)
    Path(f"{progress}.end").touch()
    done = attempt("terrace", "run", "--private", "--dram", "64M", "--json-summary", summary, *words, "--", sys.executable,
                   MEDIA / "tests/work.py", progress, 128, user=who, seconds=300)
    check(done.returncode == 0 and done.stdout.splitlines()[-1:] == ["right"], f"{done}")
    return json.loads(summary.read_text(encoding="utf-8"))["counters"], done.stderr


def case_without_rights():
    """Without the right to /dev/userfaultfd the job runs on plain memory, right, and one line says so."""
    run("chmod", "600", DEVICE)
    run("sysctl", "--quiet", "vm.unprivileged_userfaultfd=0")
    counters, said = work_of(user("mallory", member=False))
    check(counters.get("evicted_bytes", 0) == 0, counters)
    lines = [line for line in said.splitlines() if line.startswith("terrace:")]
    check(len(lines) == 1 and "plain memory" in lines[0], f"not one line that says it: {said}")


def case_by_group():
    """`chgrp terrace /dev/userfaultfd; chmod 660 /dev/userfaultfd`: a member's job pages without the service."""
    if not DEVICE.exists():
        raise Skipped(f"this kernel has no {DEVICE}")
    run("systemctl", "stop", "terraced.socket", "terraced.service")
    run("chgrp", "terrace", DEVICE)
    run("chmod", "660", DEVICE)
    pages(user("alice"))
    run("chgrp", "root", DEVICE)
    run("chmod", "600", DEVICE)


def case_by_sysctl():
    """`sysctl vm.unprivileged_userfaultfd=1`: any user's job does."""
    run("systemctl", "stop", "terraced.socket", "terraced.service")
    run("sysctl", "--quiet", "vm.unprivileged_userfaultfd=1")
    pages(user("mallory", member=False))
    run("sysctl", "--quiet", "vm.unprivileged_userfaultfd=0")


def pages(who):
    counters, said = work_of(who)
    check(counters.get("pager") == "active" and counters["evicted_bytes"] > 0, f"{counters}\n{said}")
    check("terrace:" not in said, f"it complains: {said}")
