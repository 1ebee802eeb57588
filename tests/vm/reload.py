"""`systemctl reload terraced` takes new settings up; bad ones are refused, and the old ones stay."""
import time

from machine import MIB, Job, answer, attempt, check, journal, main_pid, replace_setting, run, wait_for


def dram():
    return next(tier["capacity_bytes"] for tier in answer("tiers")["tiers"] if tier["tier"] == "dram")


def case_good_and_bad():
    """A budget of 700 MiB is taken up; an unknown key, a size that is none and what does not fit change nothing."""
    job = Job("meanwhile")
    job.goes_on().pages()
    pid = main_pid()
    replace_setting('dram = "90%"', 'dram = "700M"')
    run("systemctl", "reload", "terraced")
    wait_for(lambda: dram() == 700 * MIB, "the new budget")
    for good, bad, word in (('dram = "700M"', 'drum = "800M"', "terraced.toml:17"),
                            ('dram = "700M"', 'dram = "lots"', "terraced.toml:17"),
                            ('dram = "700M"', 'dram = "900G"', "900.0 GiB"),
                            ('group = "terrace"', 'group = "nobodys"', "nobodys")):
        replace_setting(good, bad)
        start = time.time()
        done = attempt("terraced", "--check-config")
        check(done.returncode == 2 and word in done.stdout + done.stderr, f"--check-config of {bad}: {done}")
        attempt("systemctl", "reload", "terraced")
        wait_for(lambda: any(word in line and "the old settings stay" in line for line in journal(start).splitlines()),
                 f"a line about {bad}")
        check((main_pid(), dram()) == (pid, 700 * MIB), f"{bad} changed something: {main_pid()}, {dram()}")
        replace_setting(bad, good)
    job.goes_on().ends_right()
