"""The pool's disk fills up, is unmounted, and is pulled out while jobs page: no wrong byte, and the service recovers."""
import os
import shutil
import time
from pathlib import Path

from machine import (BUDGET, MIB, NVME, Job, answer, attempt, check, journal, main_pid, mounted, replace_setting, restart, run, user,
                     wait_for)

PLACE = Path("/nvme")
POOL = PLACE / "terrace"


def pool_on_nvme(size=""):
    """The service's pool in a directory of a fresh file system on the NVMe disk."""
    mounted(NVME, PLACE, size=size)
    POOL.mkdir()
    replace_setting('directory = "/var/tmp"', f'directory = "{POOL}"')
    restart()
    check(nvme_tier()["directory"] == str(POOL), nvme_tier())


def nvme_tier():
    return next(tier for tier in answer("tiers")["tiers"] if tier["tier"] == "nvme")


def fill():
    """A file of another program that leaves nothing."""
    with open(PLACE / "filler", "wb") as filler:
        for size in (64 * MIB, 4 * MIB, MIB, 4096):
            try:
                while True:
                    os.posix_fallocate(filler.fileno(), filler.tell(), size)
                    filler.seek(size, os.SEEK_CUR)
            except OSError:  # so much is not left
                pass
    check(shutil.disk_usage(PLACE).free < 4 * MIB, "the disk is not full")


def has_a_pool(name):
    """A new job pages in the pool's directory, and is right."""
    job = Job(name, user=user("alice"))
    row = job.goes_on().pages()
    check(row["pool_promised_bytes"] > 0, f"no pool: {row}")
    job.ends_right()


def leave():
    attempt("umount", "--lazy", PLACE)


def case_full():
    """Another program fills the disk: jobs keep in DRAM what does not fit, say so, and return to their budgets."""
    pool_on_nvme("1900M")  # the second job is promised a quarter of the pool, and has room for all of its data twice
    pid = main_pid()
    jobs = [Job("of_root", mib=144), Job("of_alice", user=user("alice"), mib=144)]
    for job in jobs:
        wait_for(lambda job=job: (job.row() or {}).get("written_bytes", 0) > 0, f"{job.name} to write")
    fill()
    for job in jobs:
        job.goes_on(2)
    crowded = [job.row()["resident_bytes"] for job in jobs]
    (PLACE / "filler").unlink()
    for job in jobs:
        wait_for(lambda job=job: job.row()["resident_bytes"] <= BUDGET * MIB, f"{job.name} to be back in its budget", 90)
        row = job.goes_on().row()
        check((row["lost_runs"], row["io_errors"]) == (0, 0), f"a full disk is no loss and no error: {row}")
    check(max(crowded) > BUDGET * MIB, f"nobody kept data over the budget, so that the disk was not full: {crowded}")
    for job in jobs:
        job.ends_right()
    check(main_pid() == pid, "the service was restarted")
    leave()


def case_unmounted():
    """`umount --lazy`: a running job goes on in its file, new ones are told, and later have a pool again."""
    pool_on_nvme()
    pid = main_pid()
    old = Job("old")
    old.goes_on().pages()
    start = time.time()
    run("umount", "--lazy", PLACE)
    old.goes_on(2)
    new = Job("new", user=user("alice"))
    new.goes_on()
    wait_for(lambda: str(POOL) in journal(start), f"the service to say it: {journal(start)}")
    check(str(POOL) in new.output() or "pool" in new.output(), f"the job does not say that it has no pool: {new.output()!r}")
    old.ends_right()
    new.ends_right()
    run("mount", NVME, PLACE)
    has_a_pool("newest")
    check(main_pid() == pid, "the service was restarted")
    leave()


def case_missing():
    """The service starts while the disk is not mounted, without a pool, and has one a second after it is."""
    pool_on_nvme()
    run("umount", "--lazy", PLACE)
    start = time.time()
    restart()
    check("jobs have no pool" in journal(start), f"the service does not say it: {journal(start)}")
    Job("without").goes_on().ends_right()
    run("mount", NVME, PLACE)
    wait_for(lambda: "is back" in journal(start), f"the service to see it back: {journal(start)}", 20)
    has_a_pool("with")
    leave()


def of_disk():
    """The PCI device that the NVMe disk is."""
    return Path(f"/sys/block/{NVME.name}/device/device").resolve()


def case_pulled():
    """The disk is pulled out: a job ends right or says what it lost; the service goes on, and has a pool later."""
    pool_on_nvme()
    pid, start = main_pid(), time.time()
    job = Job("loses", user=user("alice"))
    job.goes_on().pages()
    (of_disk() / "remove").write_text("1", encoding="utf-8")
    wait_for(lambda: not NVME.exists(), "the disk to go")
    Path(f"{job.progress}.end").touch()
    code = job.process.wait(timeout=240)
    Job.running.remove(job)
    said = job.output()
    if code == 0:
        check(said.splitlines()[-1:] == ["right"], said)
    else:
        check("wrong" not in said, f"the job has seen wrong bytes: {said}")
        check(any(line.startswith("terrace:") and "EIO" in line for line in said.splitlines()),
              f"no clear error, code {code}: {said}")
    check(main_pid() == pid, "the service was restarted")
    without = Job("without")
    without.goes_on().ends_right()
    check(str(POOL) in journal(start), f"the service does not say it: {journal(start)}")
    attempt("umount", "--lazy", PLACE)
    Path("/sys/bus/pci/rescan").write_text("1", encoding="utf-8")
    wait_for(NVME.exists, "the disk to be back")
    run("mount", NVME, PLACE)
    has_a_pool("newest")
    check(main_pid() == pid, "the service was restarted")
    leave()
    return f"the job ended with {code}: {said.splitlines()[0] if said else ''}"
