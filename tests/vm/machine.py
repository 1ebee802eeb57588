"""What the tests in the virtual machine share: commands, units, users, jobs, and a service as it was installed.

A job's bytes are looked at by the job itself (work.py). Everything is as slow as a processor that is emulated, so that waits are
generous; none of them is what a test is about, unless it says so.
"""
import json
import os
import pwd
import signal
import subprocess
import sys
import time
from pathlib import Path

from waiting import Failed, check, wait_for

MIB = 1 << 20
WAIT_SECONDS = 60
DATA, BUDGET = 112, 48  # MiB, of a job that says nothing else
MEDIA = Path("/media/vm")
RUN = Path("/run/vm")  # of the tests: what jobs tell
SETTINGS = Path("/etc/terrace/terraced.toml")
SOCKET = "/run/terrace/terraced.sock"
NVME = Path("/dev/nvme0n1")
PMEM = Path("/dev/pmem0")
PACKAGES = ("terrace", "libterrace", "terrace-dev", "python3-terrace", "terrace-bench")


class Skipped(Exception):
    """The machine lacks what the test needs; says what."""


# ---- commands --------------------------------------------------------------------------------------------------

def as_user(user, words):
    return [*words] if user == "root" else ["runuser", "-u", user, "--", *words]


def attempt(*words, user="root", seconds=WAIT_SECONDS, **options):
    """Runs a command to its end, whatever that is; its output and its errors are text."""
    return subprocess.run(as_user(user, [str(word) for word in words]), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False, timeout=seconds, cwd="/", **options)


def run(*words, **options):
    """Runs a command that has to succeed; its output."""
    done = attempt(*words, **options)
    check(done.returncode == 0, f"{' '.join(map(str, words))}: code {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def answer(*words, user="root"):
    """What `terrace VERB --json` says."""
    return json.loads(run("terrace", *words, "--json", user=user))


def refusal(code, *words, user="root"):
    """The one line of a command that has to be refused with this code."""
    done = attempt(*words, user=user)
    check(done.returncode == code, f"{' '.join(map(str, words))}: code {done.returncode}, not {code}: {done.stdout}{done.stderr}")
    check(done.stderr.count("\n") == 1, f"not one line: {done.stderr}")
    return done.stderr


# ---- the service -----------------------------------------------------------------------------------------------

def of_unit(unit, name):
    return run("systemctl", "show", unit, "--property", name, "--value").strip()


def main_pid():
    """Of the service; 0 between two lives of it."""
    return int(of_unit("terraced", "MainPID") or 0)


def is_up():
    return attempt("terrace", "status", "--socket", SOCKET).returncode == 0


def wait_up(what="the service to be up"):
    wait_for(lambda: of_unit("terraced", "ActiveState") == "active" and is_up(), what, WAIT_SECONDS)


def kill_service(number=signal.SIGKILL):
    """A signal to its main process, once there is one; its process id."""
    pid = wait_for(main_pid, "a main process of the service", WAIT_SECONDS)
    os.kill(pid, number)
    return pid


def journal(since):
    """What the service has logged since a time (time.time())."""
    return run("journalctl", "--unit", "terraced", "--output", "cat", "--since", f"@{int(since)}")


def settings(text):
    """The installed settings with further ones behind them; a table that they have already is named by a key in brackets."""
    SETTINGS.write_text(INSTALLED.read_text(encoding="utf-8") + text, encoding="utf-8")


def replace_setting(old, new):
    text = SETTINGS.read_text(encoding="utf-8")
    check(old in text, f"the settings do not have {old!r}")
    SETTINGS.write_text(text.replace(old, new), encoding="utf-8")


INSTALLED = RUN / "terraced.toml"


def restart():
    run("systemctl", "restart", "terraced")
    wait_up()


def as_installed():
    """Ends what a test has left: jobs, units, settings; the service runs as after its installation."""
    for job in list(Job.running):
        job.kill()
    if not INSTALLED.exists() or not SETTINGS.exists():
        return
    if SETTINGS.read_bytes() != INSTALLED.read_bytes():
        SETTINGS.write_bytes(INSTALLED.read_bytes())
        run("systemctl", "stop", "terraced.socket", "terraced.service")
    if of_unit("terraced", "ActiveState") != "active" or of_unit("terraced.socket", "ActiveState") != "active":
        run("systemctl", "stop", "terraced.service")  # systemd opens no socket of a service that runs
        run("systemctl", "start", "terraced.socket", "terraced.service")
    wait_up()


# ---- users -----------------------------------------------------------------------------------------------------

def user(name, member=True):
    """A user of this name, made where there is none; a member of the service's group or not."""
    try:
        pwd.getpwnam(name)
    except KeyError:
        run("useradd", "--create-home", "--shell", "/bin/bash", name)
    if member:
        run("usermod", "--append", "--groups", "terrace", name)
    return name


# ---- jobs ------------------------------------------------------------------------------------------------------

class Job:
    """work.py under `terrace run`, as a user; `before` stands before `terrace`, `words` are further options of run."""

    running = []

    def __init__(self, name, *words, user="root", mib=DATA, dram=f"{BUDGET}M", before=()):
        self.name, self.user = name, user
        self.progress = RUN / f"{name}.progress"
        for file in RUN.glob(f"{name}.*"):
            file.unlink()
        self.said = open(RUN / f"{name}.said", "w+", encoding="utf-8")
        run_options = ["--name", name, *(["--dram", dram] if dram else []), *words]
        work = [sys.executable, str(MEDIA / "tests/work.py"), str(self.progress), str(mib)]
        command = ["terrace", "run", *run_options, "--", *work]
        self.process = subprocess.Popen([*before, *as_user(user, command)], stdin=subprocess.DEVNULL, stdout=self.said,
                                        stderr=subprocess.STDOUT, cwd="/", start_new_session=True)
        Job.running.append(self)

    def output(self):
        return Path(self.said.name).read_text(encoding="utf-8")

    def rounds(self):
        check(self.process.poll() is None, f"{self.name} ended with {self.process.returncode}: {self.output()}")
        return int(self.progress.read_text(encoding="utf-8")) if self.progress.exists() else 0

    def goes_on(self, rounds=1):
        """Waits until it has done so many more."""
        before = self.rounds()
        wait_for(lambda: self.rounds() >= before + rounds, f"{self.name} to go on: {self.output()}", 2 * WAIT_SECONDS)
        return self

    def row(self, user="root"):
        """What the service says of it; None where it knows no such job."""
        rows = json.loads(attempt("terrace", "jobs", "--json", "--socket", SOCKET, user=user).stdout or '{"jobs": []}')["jobs"]
        return next((row for row in rows if row["job"] == self.name), None)

    def pages(self):
        """Waits until its data moves through the pool, as the service counts it."""
        return wait_for(lambda: (self.row() or {}).get("evictions", 0) > 0 and self.row(), f"{self.name} to page", WAIT_SECONDS)

    def end(self):
        """Tells it to end and returns its exit code."""
        Path(f"{self.progress}.end").touch()
        code = self.process.wait(timeout=2 * WAIT_SECONDS)
        Job.running.remove(self)
        return code

    def ends_right(self):
        code = self.end()
        check(code == 0 and self.output().splitlines()[-1:] == ["right"], f"{self.name} ended with {code}: {self.output()}")

    def kill(self):
        row = self.row()
        if row is not None:  # systemd-run leaves its unit when it is killed itself
            attempt("kill", "-KILL", row["pid"])
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        Job.running.remove(self)
        wait_for(lambda: self.row() is None, f"{self.name} to leave", WAIT_SECONDS)


# ---- file systems ----------------------------------------------------------------------------------------------

def mounted(device, place, *options, size=""):
    """A fresh ext4 on a device, mounted; `size` as mke2fs reads it, or all of the device. DAX wants blocks of a page."""
    if not Path(device).exists():
        raise Skipped(f"this machine has no {device}")
    attempt("umount", "--lazy", place)
    run("mkfs.ext4", "-q", "-F", "-b", "4096", device, *([size] if size else []))
    Path(place).mkdir(parents=True, exist_ok=True)
    run("mount", *options, device, place)
    return Path(place)
