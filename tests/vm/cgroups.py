"""Memory limits of systemd and cgroup v2: a job pages within its limit instead of being ended by the kernel."""
import sys
from pathlib import Path

from machine import MEDIA, MIB, RUN, Job, attempt, check, user

LIMIT, DATA = 160, 192  # MiB


def unit_of(name, *properties):
    """Words that run a command as a unit of its own, and end as it does."""
    words = ["systemd-run", "--quiet", "--wait", "--pipe", "--collect", f"--unit={name}"]
    return [*words, *[f"--property={each}" for each in ("MemorySwapMax=0", *properties)]]


def case_memory_max():
    """In a unit with MemoryMax= a job of more data is ended by the kernel without Terrace, and right with it."""
    progress = RUN / "stock.progress"
    stock = attempt(*unit_of("stock", f"MemoryMax={LIMIT}M"), sys.executable, MEDIA / "tests/work.py", progress, DATA, seconds=400)
    check(stock.returncode != 0 and not progress.exists(), f"without Terrace it fits: the test says nothing: {stock}")
    job = Job("limited", mib=DATA, dram="60%", before=unit_of("limited", f"MemoryMax={LIMIT}M"))
    row = job.goes_on(2).pages()
    check(row["budget_bytes"] <= LIMIT * MIB * 6 // 10, f"60% are of the unit's limit: {row['budget_bytes']}")
    peak = int(Path("/sys/fs/cgroup/system.slice/limited.service/memory.current").read_text(encoding="utf-8"))
    check(peak <= LIMIT * MIB, f"{peak} bytes are in the unit")
    job.ends_right()


def case_limit_of_root():
    """`terrace run --limit` makes a cgroup with that limit; the budget follows it."""
    limited(Job("limited", "--limit", f"{LIMIT}M", mib=DATA, dram=""))


def case_limit_delegated():
    """The same of a user in a unit that delegates its cgroup to her."""
    alice = user("alice")
    unit = unit_of("delegated", "Delegate=yes", f"User={alice}")
    job = Job("limited", "--limit", f"{LIMIT}M", mib=DATA, dram="", before=unit)
    limited(job)


def limited(job):
    row = job.goes_on(2).pages()
    check(row.get("cgroup_limit_bytes", LIMIT * MIB) == LIMIT * MIB, row)
    entry = Path(f"/proc/{row['pid']}/cgroup").read_text(encoding="utf-8").strip().rpartition(":")[2]
    limit = Path(f"/sys/fs/cgroup{entry}/memory.max").read_text(encoding="utf-8").strip()
    check(limit == str(LIMIT * MIB), f"{entry} has a limit of {limit}")
    job.ends_right()


def case_limit_refused():
    """`--limit` of a user who may make no cgroup is refused with the reason, and nothing runs."""
    done = attempt("terrace", "run", "--limit", f"{LIMIT}M", "--", "touch", "/tmp/limited_ran", user=user("alice"))
    check(done.returncode != 0 and "--limit" in done.stderr, f"{done}")
    check(not Path("/tmp/limited_ran").exists(), "it ran without its limit")
