#!/usr/bin/python3
"""The commands that change a running job, with a terraced and jobs of the test's own.

    commands.py set       another budget: who has the job obeys it, and what does not fit is refused
    commands.py weight    two jobs without a budget have what is lent in proportion, and nobody what is guaranteed
    commands.py limit     what a job has at most holds for it, its owner and the next daemon
    commands.py lending   what a job does not use another one has, until it asks
    commands.py trim      what a job keeps for reuse goes back to the kernel
    commands.py space     what a job does not use of the pool's disk goes back, and what it stored stays
    commands.py pause     a job stands, its memory is another's meanwhile, and its result is the same
    commands.py restart   the daemon dies and another one comes while a job stands
    commands.py held      what systemd holds of a daemon's files counts for the next one when their names are gone
    commands.py refused   who may not, what cannot be paused, and that it runs on

The job changes and sums up three quarters of its budget in random blocks, over and over, until it is told to end. Its result
is compared with that of as many rounds of the same program without Terrace.
"""
import contextlib
import fcntl
import grp
import hashlib
import itertools
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # waiting.py
from waiting import Failed, check, wait_for

MIB = 2**20
BLOCKS, BLOCK_BYTES, BUDGET = 24, 16 * MIB, 512 * MIB
LEAST_ROUNDS = 8


# ---- the jobs -----------------------------------------------------------------------------------------------

def work(progress):
    """Tells each round in the file `progress`, until it is told to end and has done some. Then it prints how many there were, and
    a digest of all that was in its blocks."""
    blocks = [bytearray(random.Random(i).randbytes(BLOCK_BYTES)) for i in range(BLOCKS)]
    digest = b""
    for number in itertools.count():
        for i, block in enumerate(blocks):
            digest = hashlib.sha256(digest + hashlib.sha256(block).digest()).digest()
            at = (number * 37 + i) % 15 * MIB
            block[at:at + MIB] = random.Random(number * BLOCKS + i).randbytes(MIB)
        Path(progress).write_text(str(number + 1), encoding="utf-8")
        if is_at_end(progress, number + 1):
            return print(number + 1, digest.hex(), flush=True)


def end_of(progress):
    """The file that tells a job to end; a number in it: after so many rounds."""
    return Path(progress).with_suffix(".end")


def is_at_end(progress, rounds):
    end = end_of(progress)
    return end.exists() and rounds >= int(end.read_text(encoding="utf-8") or LEAST_ROUNDS)


def hold(progress):
    """Holds and frees: the one block that stays makes it a job, the freed ones are kept for reuse."""
    stays = bytearray(os.urandom(BLOCK_BYTES))
    freed = [bytearray(os.urandom(BLOCK_BYTES)) for _ in range(8)]
    del freed
    Path(progress).write_text("1", encoding="utf-8")
    signal.pause()
    del stays


def hoard(progress):
    """Holds more than its budget, frees most of it, and compares the rest with what it was, until it is told to end."""
    block = random.Random(0).randbytes(BLOCK_BYTES)
    blocks = [bytearray(block) for _ in range(32)]
    del blocks[3:]
    Path(progress).write_text("1", encoding="utf-8")
    for number in itertools.count(2):
        check(all(held == block for held in blocks), "what it held is another")
        Path(progress).write_text(str(number), encoding="utf-8")
        if is_at_end(progress, number):
            return


def lazy(progress):
    """Uses one block, until it is told to end: then it uses as much as its budget allows, and waits again."""
    blocks = [bytearray(os.urandom(BLOCK_BYTES))]
    Path(progress).write_text("1", encoding="utf-8")
    while not end_of(progress).exists():
        time.sleep(0.1)
    blocks += [bytearray(os.urandom(BLOCK_BYTES)) for _ in range(15)]
    Path(progress).write_text("2", encoding="utf-8")
    while True:
        for block in blocks:
            block[::4096] = bytes(BLOCK_BYTES // 4096)
        time.sleep(0.1)


# ---- what the test does with them ---------------------------------------------------------------------------

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
             "--", sys.executable, __file__, f"--{what}", progress], stdin=subprocess.DEVNULL, stdout=output)
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
    command = [sys.executable, __file__, "--work", progress]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


# ---- the tests ----------------------------------------------------------------------------------------------

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


def test_trim(directory):
    machine = Machine(directory)
    try:
        machine.start("job", "hold")
        wait_for(lambda: machine.row("job")["recycled_bytes"] >= 100 * MIB, "memory that is kept for reuse")
        resident = machine.resident_bytes("job")
        (trimmed,) = machine.answer("trim")["jobs"]
        check(trimmed["previous_recycled_bytes"] >= 100 * MIB and trimmed["recycled_bytes"] == 0, trimmed)
        check(trimmed["processes"] == 1, trimmed)
        check(machine.resident_bytes("job") <= resident - 100 * MIB, "the kernel did not get it back")
        check("kept for reuse 0 B -> 0 B" in machine.terrace("trim", "job").stdout, "trimmed once more")
        machine.refusal(5, "trim", "nobody")
        machine.end("job")
        check(machine.answer("trim")["jobs"] == [], "nobody is left")
    finally:
        machine.close()


def test_space(directory):
    machine = Machine(directory)
    try:
        for name, words in (("trimmed", ("trim", "trimmed")), ("limited", ("set", "limited", "--pool-limit", "128M"))):
            machine.start(name, "hoard", 64 * MIB)
            before = machine.pool_file_bytes(name)
            check(before >= 384 * MIB, f"{name}: {before} bytes of the pool's disk")
            machine.goes_on(name)
            check(machine.pool_file_bytes(name) == before, f"{name}: space that may be needed again is gone")
            machine.answer(*words)
            wait_for(lambda: machine.pool_file_bytes(name) <= 192 * MIB, f"{name}: space to go back", 30)
            machine.goes_on(name)
            machine.result(name)
    finally:
        machine.close()


def pause(machine, name):
    wait_for(lambda: machine.row(name)["resident_bytes"] >= BLOCKS * BLOCK_BYTES * 3 // 4, "the job to have its memory")
    answer = machine.answer("pause", name)
    check(answer["previous_resident_bytes"] >= BLOCKS * BLOCK_BYTES * 3 // 4, answer)
    check(answer["resident_bytes"] <= 8 * MIB, answer)
    check(machine.resident_bytes(name) <= 48 * MIB, f"{machine.resident_bytes(name)} bytes are left in memory")
    check(machine.state(name) == "T", f"the process is in state {machine.state(name)}")
    return answer


def test_pause(directory):
    machine = Machine(directory)
    try:
        machine.start("job", options=("--summary",))
        machine.look_below("job")
        machine.goes_on("job")
        check("cannot be met" in refused_start(machine), "both fit at once")
        pause(machine, "job")
        rounds = machine.rounds("job")
        check(machine.row("job")["paused"] is True, machine.row("job"))
        machine.start("other", "hold", 900 * MIB)
        check("does not fit" in machine.refusal(2, "resume", "job"), "resumed without room")
        check((machine.state("job"), machine.rounds("job")) == ("T", rounds), "it did not stand")
        machine.end("other")
        answer = machine.answer("resume", "job")
        check((answer["processes"], answer["budget_bytes"]) == (1, BUDGET), answer)
        machine.goes_on("job")
        pause(machine, "job")  # once more: what was read in again leaves again
        machine.answer("resume", "job")
        machine.check_result("job")
    finally:
        machine.close()


def test_namesake(directory):
    """Jobs of two daemons have one name: only that of the daemon that was asked is stopped, and only it is let go on."""
    second = Path(directory) / "second"
    second.mkdir()
    machine, neighbour = Machine(directory), Machine(second)
    try:
        for each in (machine, neighbour):
            each.start("job")
            each.goes_on("job")
        pause(machine, "job")
        neighbour.goes_on("job")
        pause(neighbour, "job")
        check(machine.answer("resume", "job")["processes"] == 1, "not one was let go on")
        machine.goes_on("job")
        check(neighbour.state("job") == "T", "the neighbour was let go on, too")
    finally:
        machine.close()
        neighbour.close()


def refused_start(machine):
    words = ["run", "--dram", "900M", "--name", "other"]
    done = subprocess.run([os.environ["TERRACE_BIN"], *words, "--socket", str(machine.socket), "--", "true"],
                          stderr=subprocess.PIPE, text=True, check=False)
    check(done.returncode == 2, f"{done.returncode}: {done.stderr}")
    return done.stderr


def test_restart(directory):
    machine = Machine(directory)
    try:
        machine.start("job")
        machine.goes_on("job")
        pause(machine, "job")
        machine.kill_daemon()
        machine.start_daemon()
        check(machine.row("job") is None, "the new daemon knows a job that stands")
        check(machine.state("job") == "T", "the daemon's death let it go on")
        answer = machine.answer("resume", "job")
        check(answer["processes"] == 1, answer)
        machine.goes_on("job")
        wait_for(lambda: (machine.row("job") or {}).get("budget_bytes") == BUDGET, "its budget from the new daemon")
        machine.refusal(5, "resume", "nobody")
        pause(machine, "job")
        machine.kill_daemon()
        done = machine.terrace("resume", "job")
        check(done.returncode == 0 and "no daemon answers" in done.stdout, done.stdout + done.stderr)
        check(machine.state("job") != "T", "it stands without a daemon")
        machine.start_daemon()
        machine.goes_on("job")
        machine.check_result("job")
    finally:
        machine.close()


class Manager:
    """systemd's end of what a service tells it: the descriptors that it is to hold, by name."""

    def __init__(self, path):
        self.path, self.held = path, {}
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.setblocking(False)

    def take(self):
        while True:
            try:
                told, fds, _, _ = socket.recv_fds(self.socket, 4096, 4)
            except BlockingIOError:
                return self.held
            words = dict(line.split("=", 1) for line in told.decode().splitlines())
            if "FDSTOREREMOVE" in words and words["FDNAME"] in self.held:
                os.close(self.held.pop(words["FDNAME"]))
            if "FDSTORE" in words:
                self.held[words["FDNAME"]] = fcntl.fcntl(fds[0], fcntl.F_DUPFD_CLOEXEC, 10)  # beyond those that a daemon is handed
                os.close(fds[0])


def test_held(directory):
    """What systemd holds for the next daemon counts when somebody has removed the files; else they are gone."""
    machine = Machine(directory)
    manager = Manager(machine.directory / "notify")

    def restart(held=None):
        machine.kill_daemon()
        for name in ("promises", "events"):
            os.unlink(f"{machine.socket}.{name}")
        machine.start_daemon(held, manager.path)
        wait_for(lambda: machine.row("job"), "the job to come back")

    try:
        machine.start("job")
        machine.goes_on("job")
        restart()
        check(machine.terrace("set", "job", "--pool-limit", "512M").returncode == 0, "a limit")
        time.sleep(0.5)  # until it is on record
        for _ in range(2):
            last_before = machine.answer("events", "-n", "1")["events"][-1]["number"]
            check(sorted(manager.take()) == ["events", "promises"], manager.held)
            restart(dict(manager.held))
            check(machine.row("job").get("pool_limit_bytes") == 512 * MIB, machine.row("job"))
            numbers = [event["number"] for event in machine.answer("events", "-n", "4096")["events"]]
            check(numbers[0] <= last_before < numbers[-1], f"events {numbers[0]} to {numbers[-1]}, before to {last_before}")
            time.sleep(0.5)
        restart()
        check("pool_limit_bytes" not in machine.row("job"), f"of files that are gone: {machine.row('job')}")
        machine.check_result("job")
    finally:
        machine.close()


def ask_and_leave(path, request):
    """As a `terrace pause` that is killed right after its first request."""
    text = json.dumps(request).encode()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as end:
        end.connect(str(path))
        end.send(struct.pack("<IHHII", 0x43525254, 1, 32, len(text), 0) + text)
        end.recv(2**16)


def test_refused(directory):
    machine = Machine(directory, pool_bytes=64 * MIB, group="nogroup")
    try:
        machine.start("job")
        machine.goes_on("job")
        line = machine.refusal(1, "pause", "job")
        check("its pool is full" in line and "runs on with its budget as before" in line, line)
        check(machine.state("job") != "T" and machine.row("job")["budget_bytes"] == BUDGET, machine.row("job"))
        machine.goes_on("job")
        ask_and_leave(machine.socket, {"verb": "pause", "job": "job"})
        check(machine.row("job")["budget_bytes"] < BUDGET, "the request did nothing")
        wait_for(lambda: machine.row("job")["budget_bytes"] == BUDGET, "the budget of a job whose pauser died", 10)
        check("did you mean 'job'?" in machine.refusal(5, "pause", "jo"), "the nearest name")
        if os.getuid() == 0:
            os.chmod(directory, 0o755)
            stranger = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")
            for words in (("pause", "job"), ("resume", "job"), ("trim", "job"), ("set", "job", "--dram", "64M"),
                          ("set", "job", "--dram-limit", "64M")):
                check("belongs to user 0" in machine.refusal(4, *words, launcher=stranger), words)
        if Path(os.environ["TERRACE_PRELOAD"]).with_name("libterrace_gpu_preload.so").exists():
            machine.start("gpu", "hold", 128 * MIB, ("--gpu", "emulated:64M"))
            check("it uses a GPU" in machine.refusal(2, "pause", "gpu"), "a GPU's job")
            check(machine.state("gpu") != "T", "it was stopped")
        machine.check_result("job")
    finally:
        machine.close()


def main():
    if sys.argv[1] in ("--work", "--hold", "--hoard", "--lazy"):
        return {"--work": work, "--hold": hold, "--hoard": hoard, "--lazy": lazy}[sys.argv[1]](sys.argv[2])
    tests = {"set": test_set, "weight": test_weight, "limit": test_limit, "lending": test_lending, "trim": test_trim,
             "space": test_space, "pause": test_pause, "namesake": test_namesake, "restart": test_restart, "held": test_held,
             "refused": test_refused}
    with tempfile.TemporaryDirectory(prefix="terrace-e2e.", dir=os.environ.get("TMPDIR", "/var/tmp")) as directory:
        try:
            tests[sys.argv[1]](directory)
        except Failed as failed:
            print(f"FAILED: {failed}", file=sys.stderr)
            print(Path(directory, "daemon.log").read_text(encoding="utf-8"), file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
