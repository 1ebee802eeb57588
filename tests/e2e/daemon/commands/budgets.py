#!/usr/bin/python3
"""What a job may have: `terrace set`, and what is lent.

    budgets.py set       another budget: who has the job obeys it, and what does not fit is refused
    budgets.py weight    two jobs without a budget have what is lent in proportion, and nobody what is guaranteed
    budgets.py limit     what a job has at most holds for it, its owner and the next daemon
    budgets.py lending   what a job does not use another one has, until it asks
"""
import grp
import os
import signal
import sys
import time
from pathlib import Path

from machine import BUDGET, MIB, Machine, check, end_of, run, wait_for


def test_set(directory):
    machine = Machine(directory)
    try:
        machine.start("job")
        answer = machine.answer("set", "job", "--dram", "192m")
        check((answer["format"], answer["version"]) == ("terrace-set", 1), answer)
        check((answer["previous_bytes"], answer["budget_bytes"]) == (BUDGET, 192 * MIB), answer)
        check(machine.row("job")["budget_bytes"] == 192 * MIB, machine.row("job"))
        wait_for(lambda: machine.row("job")["resident_bytes"] <= 192 * MIB, "the job to obey")
        done = machine.terrace("set", "job", "--dram", "256M")
        check(done.stdout == "job: DRAM budget 192 MiB -> 256 MiB\n", done.stdout)
        line = machine.refusal(2, "set", "job", "--dram", "1100M")
        check("does not fit" in line and "ask for at most" in line, line)
        check("smallest possible is 32.0 MiB" in machine.refusal(2, "set", "job", "--dram", "31M"), "the least")
        check("is not a size" in machine.refusal(2, "set", "job", "--dram", "lots"), "no size")
        check("did you mean 'job'?" in machine.refusal(5, "set", "jbo", "--dram", "64M"), "the nearest name")
        check(machine.row("job")["budget_bytes"] == 256 * MIB, "a refused budget changed something")
        machine.check_result("job")
    finally:
        machine.close()


def test_weight(directory):
    # Python and its libraries are some of what the kernel counts, so the pager's own figure is looked at.
    machine = Machine(directory, dram="256M", shares='[[share]]\nuser = "nobody"\nguarantee = "128M"\n')
    def resident(name):
        return machine.row(name)["resident_bytes"]
    try:
        machine.start("heavy", budget=None, options=("--weight", "2"))
        machine.start("light", budget=None)
        check(machine.row("heavy")["weight"] == 2, f"what the job began with: {machine.row('heavy')}")
        done = machine.terrace("set", "heavy", "--weight", "3")
        check(done.stdout == "heavy: weight 2 -> 3\n", done.stdout + done.stderr)
        check(machine.row("heavy")["weight"] == 3, machine.row("heavy"))
        wait_for(lambda: (machine.row("heavy")["budget_bytes"], machine.row("light")["budget_bytes"])
                 == (192 * MIB, 64 * MIB), "budgets of 3 to 1")
        wait_for(lambda: resident("light") <= 64 * MIB and resident("heavy") >= 160 * MIB, "memory to follow")
        for _ in range(3):
            machine.goes_on("light")
            heavy, light = resident("heavy"), resident("light")
            check(2.7 <= heavy / light <= 3.3, f"{heavy} and {light} bytes are not 3 to 1")
        line = machine.refusal(2, "set", "heavy", "--dram", "160M")
        check("does not fit: 124.0 MiB of the machine's 256.0 MiB are left" in line, line)
        done = machine.terrace("set", "heavy", "--dram", "96M")
        check(done.returncode == 0, done.stderr)
        done = machine.terrace("set", "heavy", "--weight", "2")
        check(done.stdout == "heavy: weight 3 -> 2, once it has no budget of its own\n", done.stdout + done.stderr)
        for weight in ("0", "1001", "-1", "1.5", "much"):
            line = machine.refusal(2, "set", "heavy", f"--weight={weight}")
            check("is not a whole number from 1 to 1000" in line, line)
        check("say what to set" in machine.refusal(2, "set", "heavy"), "nothing to set")
        machine.config.write_text("[daemon]\n", encoding="utf-8")
        machine.daemon.send_signal(signal.SIGHUP)
        wait_for(lambda: machine.terrace("set", "heavy", "--dram", "160M").returncode == 0, "what was guaranteed")
        machine.config.write_text(f'[[job]]\nname = "li*"\nuser = "{os.getuid()}"\nlimit = "48M"\n', encoding="utf-8")
        machine.daemon.send_signal(signal.SIGHUP)
        wait_for(lambda: machine.row("light").get("dram_limit_bytes") == 48 * MIB
                 and machine.row("light")["budget_bytes"] == 48 * MIB, "what the settings say of a name")
        check("dram_limit_bytes" not in machine.row("heavy"), machine.row("heavy"))
        machine.check_result("heavy")
        machine.check_result("light")
    finally:
        machine.close()


def test_limit(directory):
    machine = Machine(directory)
    try:
        machine.start("job")
        machine.goes_on("job")
        done = machine.terrace("set", "job", "--dram-limit", "192M")
        check(done.stdout == "job: DRAM limit none -> 192 MiB\n", done.stdout + done.stderr)
        row = machine.row("job")
        check((row["dram_limit_bytes"], row["budget_bytes"]) == (192 * MIB, 192 * MIB), row)
        wait_for(lambda: machine.row("job")["resident_bytes"] <= 192 * MIB, "the job to obey")
        line = machine.refusal(2, "set", "job", "--dram", "256M")
        check("more than the job's limit of 192.0 MiB" in line and "--dram-limit" in line, line)
        check("is not a size" in machine.refusal(2, "set", "job", "--dram-limit", "lots"), "no size")
        promised = machine.row("job")["pool_promised_bytes"]
        done = machine.terrace("set", "job", "--pool-limit", "512M")
        check(done.stdout == "job: pool limit none -> 512 MiB\n", done.stdout + done.stderr)
        done = machine.terrace("set", "job", "--gpu-limit", "1G")
        check(done.stdout == "job: limit of each GPU none -> 1.00 GiB\n", done.stdout + done.stderr)
        check("[pool] writes_per_day" in machine.refusal(2, "set", "job", "--writes-limit", "1G"), "no whole")
        for words in (("--pool-limit", "50%"), ("--gpu-limit", "lots"), ("--writes-limit", "0")):
            check(words[0] in machine.refusal(2, "set", "job", *words), words)
        done = machine.terrace("set", "job", "--pool-limit", "1G", "--gpu-limit", "1G")
        check(done.returncode == 2 and "--pool-limit excludes --gpu-limit" in done.stderr, f"both at once: {done}")
        wait_for(lambda: Path(f"{machine.socket}.promises").exists(), "the record")
        time.sleep(0.5)  # until which it may be of before
        last_before = machine.answer("events", "-n", "1")["events"][-1]["number"]
        machine.kill_daemon()
        machine.start_daemon()
        wait_for(lambda: machine.row("job"), "the job to come back")
        row = machine.row("job")
        check((row["pool_limit_bytes"], row["pool_promised_bytes"]) == (512 * MIB, 512 * MIB), f"after a restart: {row}")
        numbers = [event["number"] for event in machine.answer("events", "-n", "4096")["events"]]
        check(numbers[0] <= last_before < numbers[-1], f"events {numbers[0]} to {numbers[-1]}, before the restart to {last_before}")
        answer = machine.answer("set", "job", "--pool-limit", "none")
        check(answer["previous_limit_bytes"] == 512 * MIB and "pool_limit_bytes" not in answer, answer)
        check(machine.row("job")["pool_promised_bytes"] <= promised, machine.row("job"))
        check(machine.answer("set", "job", "--gpu-limit", "none")["previous_limit_bytes"] == 1024 * MIB, "of a GPU")
        check((row["dram_limit_bytes"], row["budget_bytes"]) == (192 * MIB, 192 * MIB), f"after a restart: {row}")
        answer = machine.answer("set", "job", "--dram-limit", "none")
        check(answer["previous_limit_bytes"] == 192 * MIB and "dram_limit_bytes" not in answer, answer)
        check("dram_limit_bytes" not in machine.row("job"), machine.row("job"))
        check(machine.terrace("set", "job", "--dram", "256M").returncode == 0, "a budget beyond what was the limit")
        machine.check_result("job")
    finally:
        machine.close()


def test_lending(directory):
    group = grp.getgrgid(os.getgid()).gr_name if os.getuid() else "nogroup"
    machine = Machine(directory, dram="512M", shares=f'[budget]\nper_user = "100%"\n[[group]]\nname = "{group}"\n')
    def amounts(name):
        row = machine.row(name)
        return row["resident_bytes"] // MIB, row.get("borrowed_bytes", 0) // MIB, row.get("lent_bytes", 0) // MIB
    try:
        machine.start("lazy", "lazy", 320 * MIB)
        machine.start("busy", budget=None)
        check(machine.row("busy")["budget_bytes"] == 192 * MIB, machine.row("busy"))
        check(amounts("busy")[0] <= 192, f"at once: {amounts('busy')}")
        wait_for(lambda: amounts("busy")[0] >= 320, f"idle memory to be lent: {amounts('busy')}", 90)
        check(amounts("busy")[1] == amounts("lazy")[2] >= 128, f"{amounts('busy')} and {amounts('lazy')}")
        check(machine.row("lazy")["budget_bytes"] == 320 * MIB, machine.row("lazy"))
        check(f"group   {group}: " in machine.terrace("status").stdout, machine.terrace("status").stdout)
        end_of(machine.directory / "lazy.progress").touch()
        wait_for(lambda: amounts("lazy")[0] >= 240 and amounts("busy")[0] <= 200,
                 f"it to come back: {amounts('lazy')} and {amounts('busy')}", 30)
        check(amounts("lazy")[2] == amounts("busy")[1] == 0, f"{amounts('lazy')} and {amounts('busy')}")
        machine.check_result("busy")
    finally:
        machine.close()


if __name__ == "__main__":
    sys.exit(run({"set": test_set, "weight": test_weight, "limit": test_limit, "lending": test_lending}))
