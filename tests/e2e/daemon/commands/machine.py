"""What tests of the commands share: a daemon of their own, jobs under it, and what can be asked of both.

The job that works changes and sums up three quarters of its budget in random blocks, over and over, until it is told to end. Its
result is compared with that of as many rounds of the same program without Terrace.
"""
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # waiting.py
from jobs import BLOCK_BYTES, BLOCKS, BUDGET, MIB, end_of
from waiting import Failed, check, wait_for

JOBS = Path(__file__).with_name("jobs.py")


class Machine:
    """A directory with a daemon and jobs in it."""

    def __init__(self, directory, pool_bytes=2048 * MIB, group="", dram="1G", shares=""):
        self.directory = Path(directory)
        self.socket = self.directory / "d.sock"
        self.config = self.directory / "terraced.toml"
        self.config.write_text(f'[daemon]\ngroup = "{group}"\n{shares}', encoding="utf-8")
        self.pool_bytes, self.dram = pool_bytes, dram
        self.jobs, self.pids = {}, {}
        self.daemon = None
        self.start_daemon()

    def start_daemon(self, held=None, notify=None):
        """`held`: name and descriptor of what systemd hands over; `notify`: where it listens."""
        terraced = os.environ["TERRACE_BIN"] + "d"
        log = open(self.directory / "daemon.log", "a", encoding="utf-8")
        environment, launcher = dict(os.environ), []
        if notify is not None:
            environment["NOTIFY_SOCKET"] = str(notify)
        if held:
            environment |= {"LISTEN_FDS": str(len(held)), "LISTEN_FDNAMES": ":".join(held)}
            moved = " ".join(f"{3 + place}<&{fd}" for place, fd in enumerate(held.values()))
            launcher = ["bash", "-c", f'LISTEN_PID=$$ exec "$@" {moved}', "bash"]
        self.daemon = subprocess.Popen(
            [*launcher, terraced, "--config", self.config, "--socket", self.socket, "--dram", self.dram, "--pool", self.directory,
             "--pool-size", str(self.pool_bytes)], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment,
            pass_fds=list((held or {}).values()))
        wait_for(lambda: self.terrace("status").returncode == 0, "the daemon")

    def kill_daemon(self):
        self.daemon.kill()
        self.daemon.wait()

    def terrace(self, *words, launcher=()):
        return subprocess.run([*launcher, os.environ["TERRACE_BIN"], *words, "--socket", str(self.socket)],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)

    def answer(self, *words):
        done = self.terrace(*words, "--json")
        check(done.returncode == 0, f"terrace {' '.join(words)}: {done.returncode}, {done.stderr}")
        return json.loads(done.stdout)

    def refusal(self, code, *words, launcher=()):
        done = self.terrace(*words, launcher=launcher)
        check(done.returncode == code,
              f"terrace {' '.join(words)}: {done.returncode} and not {code}: {done.stdout}{done.stderr}")
        check(done.stderr.startswith("terrace: ") and done.stderr.count("\n") == 1, f"not one line: {done.stderr}")
        return done.stderr

    def start(self, name, what="work", budget=BUDGET, options=()):
        progress = self.directory / f"{name}.progress"
        output = open(self.directory / f"{name}.out", "w", encoding="utf-8")
        dram = ("--dram", str(budget)) if budget else ()
        self.jobs[name] = subprocess.Popen(
            [os.environ["TERRACE_BIN"], "run", "--socket", self.socket, *dram, "--name", name, *options,
             "--", sys.executable, JOBS, what, progress], stdin=subprocess.DEVNULL, stdout=output)
        self.pids[name] = self.jobs[name].pid
        wait_for(progress.exists, f"{name} to work")

    def row(self, name):
        return next((job for job in self.answer("jobs")["jobs"] if job["job"] == name), None)

    def look_below(self, name):
        """Of a `terrace run` that stays as the parent of its command."""
        pid = self.jobs[name].pid
        self.pids[name] = int(Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()[0])

    def rounds(self, name):
        return int((self.directory / f"{name}.progress").read_text(encoding="utf-8") or 0)

    def state(self, name):
        return Path(f"/proc/{self.pids[name]}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]

    def resident_bytes(self, name):
        lines = Path(f"/proc/{self.pids[name]}/status").read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))

    def pool_file_bytes(self, name):
        """What the disk counts."""
        found = []
        for descriptor in Path(f"/proc/{self.pids[name]}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed since
                if os.readlink(descriptor).startswith(f"{self.directory}/#"):
                    found.append(descriptor.stat().st_blocks * 512)
        check(len(found) > 0, f"{name} has no pool file")
        return max(found)

    def goes_on(self, name):
        before = self.rounds(name)
        wait_for(lambda: self.rounds(name) > before, f"{name} to go on")

    def result(self, name):
        end_of(self.directory / f"{name}.progress").touch()
        check(self.jobs[name].wait(timeout=300) == 0, f"{name} ended with {self.jobs[name].returncode}")
        return (self.directory / f"{name}.out").read_text(encoding="utf-8").strip()

    def check_result(self, name):
        result = self.result(name)
        check(result == stock_result(self.directory, result.split()[0]), f"{name}: another result")

    def end(self, name):
        self.jobs[name].kill()
        self.jobs[name].wait()
        wait_for(lambda: self.row(name) is None, f"{name} to leave")

    def close(self):
        for name, job in self.jobs.items():
            if job.poll() is None:
                os.kill(self.pids[name], signal.SIGKILL)
        for process in [*self.jobs.values(), self.daemon]:
            process.kill()
            process.wait()


def stock_result(directory, rounds):
    progress = Path(directory, "stock.progress")
    end_of(progress).write_text(rounds, encoding="utf-8")
    command = [sys.executable, JOBS, "work", progress]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def pause(machine, name):
    wait_for(lambda: machine.row(name)["resident_bytes"] >= BLOCKS * BLOCK_BYTES * 3 // 4, "the job to have its memory")
    answer = machine.answer("pause", name)
    check(answer["previous_resident_bytes"] >= BLOCKS * BLOCK_BYTES * 3 // 4, answer)
    check(answer["resident_bytes"] <= 8 * MIB, answer)
    check(machine.resident_bytes(name) <= 48 * MIB, f"{machine.resident_bytes(name)} bytes are left in memory")
    check(machine.state(name) == "T", f"the process is in state {machine.state(name)}")
    return answer


def run(tests):
    """The test that the command line names, in a directory of its own."""
    with tempfile.TemporaryDirectory(prefix="terrace-e2e.", dir=os.environ.get("TMPDIR", "/var/tmp")) as directory:
        try:
            tests[sys.argv[1]](directory)
        except Failed as failed:
            print(f"FAILED: {failed}", file=sys.stderr)
            print(Path(directory, "daemon.log").read_text(encoding="utf-8"), file=sys.stderr)
            return 1
    return 0
