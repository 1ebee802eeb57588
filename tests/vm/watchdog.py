"""A service that hangs is noticed by systemd, which starts it anew; jobs do not wait for it."""
import signal
import time

from machine import Job, check, journal, kill_service, main_pid, of_unit, user, wait_for


def case_stopped():
    """The service is stopped by SIGSTOP: within WatchdogSec another one serves the running jobs."""
    jobs = [Job("of_root"), Job("of_alice", user=user("alice"))]
    for job in jobs:
        job.goes_on().pages()
    restarts, start = int(of_unit("terraced", "NRestarts")), time.time()
    hung = kill_service(signal.SIGSTOP)
    for job in jobs:
        job.goes_on()  # while nobody answers
    check(main_pid() == hung, "the service was ended before a job had gone on: the test says nothing")
    wait_for(lambda: main_pid() not in (0, hung), "systemd to start another one", 200)
    took = time.time() - start
    check(int(of_unit("terraced", "NRestarts")) == restarts + 1, f"NRestarts: {of_unit('terraced', 'NRestarts')}")
    check("atchdog timeout" in journal(start), journal(start))
    for job in jobs:
        wait_for(job.row, f"{job.name} to attach to it", 60)
        job.goes_on()
    for job in jobs:
        job.ends_right()
    return f"another one {took:.0f} s after it hung"
