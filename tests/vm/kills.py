"""The service is killed over and over: it is there again at once, and jobs do not notice."""
import os
import signal
import time
from pathlib import Path

import raw
from machine import BUDGET, MIB, SOCKET, Job, answer, check, of_unit, run, user, wait_for

KILLS, SECONDS = 10, 5
# A second is wanted, and the log has how long it took. This much more is for hosts that have other work to do: an emulated
# processor is ten to thirty times as slow as a real one.
UP_SECONDS = 3
PROCESSES = Path("/sys/fs/cgroup/system.slice/terraced.service/cgroup.procs")


def process():
    """The service's process, told by its cgroup: systemctl takes as long as a life of it here. None between two lives."""
    try:
        pids = PROCESSES.read_text(encoding="utf-8").split()
    except OSError:
        return None
    return int(pids[0]) if pids else None


def kill_all():
    """Ten kills, of ten processes, evenly over five seconds; how long that took."""
    start, killed = time.monotonic(), set()
    for number in range(KILLS):
        time.sleep(max(0.0, start + number * SECONDS / KILLS - time.monotonic()))
        pid = wait_for(lambda: process() not in killed and process(), f"life {number} of the service", 20)
        os.kill(pid, signal.SIGKILL)
        killed.add(pid)
    return time.monotonic() - start


def answers():
    try:
        return raw.control("ping", seconds=5)["ok"]
    except (OSError, ValueError):
        return False


def case_ten():
    """`kill -9` ten times in five seconds: soon up after the last, and running jobs end with right bytes."""
    jobs = [Job("of_root"), Job("of_alice", user=user("alice"))]
    for job in jobs:
        job.goes_on().pages()
    last_before = answer("events", "-n", "1")["events"][-1]["number"]
    took = kill_all()
    end = time.monotonic()
    wait_for(answers, "the service to answer", 60)
    up = time.monotonic() - end
    check(took <= SECONDS + 5, f"ten kills took {took:.1f} s, more than this machine is slow: is the service late each time?")
    check(up <= UP_SECONDS, f"up only {up:.2f} s after the last kill")
    check(of_unit("terraced", "ActiveState") == "active", of_unit("terraced", "ActiveState"))
    first = answer("events", "-n", "4096")["events"][0]["number"]
    check(first <= last_before, f"the first event is {first}, of {last_before} before the kills")
    for job in jobs:
        wait_for(job.row, f"{job.name} to attach", 60)
        job.goes_on().ends_right()
    return f"ten kills in {took:.1f} s, answers {up:.2f} s after the last"


def case_removed():
    """The service's files are removed and it is killed: systemd holds them, and with them a job's limit and the events."""
    job = Job("held").goes_on()
    limit = 4 * BUDGET
    run("terrace", "set", "held", "--dram-limit", f"{limit}M")
    time.sleep(2)  # until it is on record
    check(of_unit("terraced", "NFileDescriptorStore") == "2", of_unit("terraced", "NFileDescriptorStore"))
    last_before = answer("events", "-n", "1")["events"][-1]["number"]
    for name in ("promises", "events"):
        Path(f"{SOCKET}.{name}").unlink()
    os.kill(process(), signal.SIGKILL)
    wait_for(answers, "the service to answer", 60)
    row = wait_for(job.row, "the job to attach", 60)
    check(row.get("dram_limit_bytes") == limit * MIB, f"the limit is lost: {row}")
    first = answer("events", "-n", "4096")["events"][0]["number"]
    check(first <= last_before, f"the first event is {first}, of {last_before} before the kill")
    check(of_unit("terraced", "NFileDescriptorStore") == "2", of_unit("terraced", "NFileDescriptorStore"))
    job.goes_on().ends_right()
