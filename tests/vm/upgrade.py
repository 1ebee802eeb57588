"""The service is restarted, and its packages upgraded, while jobs page: nothing is lost."""
from pathlib import Path

from machine import BUDGET, MEDIA, MIB, PACKAGES, Job, check, main_pid, run, user, wait_for, wait_up


def jobs_that_page():
    jobs = [Job("of_root"), Job("of_alice", user=user("alice")), Job("unsized", mib=32, dram="", user=user("bob"))]
    for job in jobs[:2]:
        job.goes_on().pages()
    jobs[2].goes_on()
    return jobs


def attach_and_end(jobs):
    """All are known to the service that runs now, have lost nothing, and go on to a right end."""
    for job in jobs:
        row = wait_for(job.row, f"{job.name} to attach", 60)
        check((row["lost_runs"], row["io_errors"], row["checksum_failures"]) == (0, 0, 0), row)
        if job.name != "unsized":
            check(row["budget_bytes"] == BUDGET * MIB, f"{job.name} has another budget than it was promised: {row['budget_bytes']}")
    for job in jobs:
        job.goes_on()
    for job in jobs:
        job.ends_right()


def case_restart():
    """`systemctl restart terraced`, twice."""
    jobs = jobs_that_page()
    for _ in range(2):
        before = main_pid()
        run("systemctl", "restart", "terraced")
        wait_up()
        check(main_pid() not in (0, before), "it is the same process")
        for job in jobs:
            job.goes_on()
    attach_and_end(jobs)


def version(package):
    return run("dpkg-query", "--show", "--showformat", "${Version}", package)


def maps_an_old_library(pid):
    """A job that runs keeps the library that it began with, though its file was replaced."""
    lines = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines()
    return any("libterrace_preload.so" in line and line.endswith("(deleted)") for line in lines)


def case_packages():
    """A newer version of all packages is installed by apt."""
    jobs = jobs_that_page()
    before, old = main_pid(), version("terrace")
    run("apt-get", "install", "--yes", *sorted(MEDIA.glob("upgrade/*.deb")), seconds=500)
    for package in PACKAGES:
        check(version(package) == f"{old}+1", f"{package} is {version(package)}")
    wait_up()
    check(main_pid() not in (0, before), "the old process serves on")
    check(not Path(f"/proc/{main_pid()}/exe").readlink().name.endswith("(deleted)"), "the old program serves on")
    check(maps_an_old_library(jobs[0].row()["pid"]), "the job's library was not replaced: the test says nothing")
    new = Job("new", user=user("alice"))
    new.goes_on().pages()
    attach_and_end([*jobs, new])


def case_back():
    """And back to the version before, which jobs outlive as well."""
    jobs = jobs_that_page()
    run("apt-get", "install", "--yes", "--allow-downgrades", *sorted(MEDIA.glob("packages/*.deb")), seconds=500)
    check(not version("terrace").endswith("+1"), version("terrace"))
    wait_up()
    attach_and_end(jobs)
