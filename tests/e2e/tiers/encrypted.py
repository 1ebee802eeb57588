#!/usr/bin/python3
"""A job whose pool is encrypted on the drive: its data is right, and nobody reads it there.

    encrypted.py job        its bytes are not on the drive, where those of a pool in plain text are; a forked child reads them
    encrypted.py restart    terraced is killed while the job runs: the job goes on, and the next daemon has another key
    encrypted.py refused    what cannot be encrypted is refused, and a job that gets no pool makes none in plain text

A file system of the test's own, in a file: that takes root, loop devices and mkfs.ext4. The job holds three times its
budget in blocks of a text that is looked for.
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # waiting.py
from waiting import Failed, check, wait_for

MIB = 2**20
BLOCKS, BLOCK_BYTES, BUDGET = 24, 8 * MIB, 64 * MIB
TEXT = b"a line of the training data that must not be read by whoever takes the drive away; "


# ---- the job ------------------------------------------------------------------------------------------------

def content(number, rounds):
    line = TEXT + b"%06d %06d\n" % (number, rounds)
    return (line * (BLOCK_BYTES // len(line) + 1))[:BLOCK_BYTES]


def wrong(blocks, rounds):
    return sum(bytes(block) != content(number, rounds) for number, block in enumerate(blocks))


def wrong_in_a_child(blocks, rounds):
    child = os.fork()
    if child == 0:
        os._exit(min(wrong(blocks, rounds), 100))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def job(progress):
    """Until a file says that it is to end; how far it is stands in another one."""
    found, rounds, blocks = 0, 0, [bytearray(content(number, 0)) for number in range(BLOCKS)]
    while not progress.with_suffix(".end").exists() or rounds < 2:
        found += wrong(blocks, rounds)
        rounds += 1
        for number, block in enumerate(blocks):
            block[:] = content(number, rounds)
        progress.write_text(str(rounds), encoding="utf-8")
    print(f"wrong: {found + wrong(blocks, rounds)}, in a child: {wrong_in_a_child(blocks, rounds)}")


# ---- what the test does with it -----------------------------------------------------------------------------

class Skipped(Exception):
    pass


class Machine:
    """A file system that can encrypt, a daemon with its pool there, and a job."""

    def __init__(self, directory, encrypts=True, features="encrypt"):
        self.directory = Path(directory)
        self.image, self.pool, self.socket = (self.directory / name for name in ("image", "pool", "d.sock"))
        self.progress = self.directory / "progress"
        self.pool.mkdir(parents=True)
        self.encrypts, self.daemon, self.job = encrypts, None, None
        with open(self.image, "wb") as image:
            image.truncate(1024 * MIB)
        # A job that names no size gets half of --pool-size.
        for command in (["mkfs.ext4", "-q", "-F", "-O", features, self.image], ["mount", "-o", "loop", self.image, self.pool]):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise Skipped(f"{command[0]}: {done.stderr.strip()}")

    def config(self):
        path = self.directory / "terraced.toml"
        path.write_text(f'[pool]\nencrypt = "{"yes" if self.encrypts else "no"}"\n', encoding="utf-8")
        return ["--config", path, "--socket", self.socket, "--dram", "256M", "--pool", self.pool, "--pool-size", "900M"]

    def start_daemon(self):
        log = open(self.directory / "daemon.log", "a", encoding="utf-8")
        self.daemon = subprocess.Popen([os.environ["TERRACE_BIN"] + "d", *self.config()], stdin=subprocess.DEVNULL,
                                       stdout=log, stderr=log)
        wait_for(lambda: self.ask("status") is not None, f"the daemon: {self.log()}")

    def log(self):
        return (self.directory / "daemon.log").read_text(encoding="utf-8")

    def ask(self, verb):
        done = subprocess.run([os.environ["TERRACE_BIN"], verb, "--json", "--socket", self.socket], capture_output=True,
                              text=True, check=False)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def start_job(self, *options):
        command = [os.environ["TERRACE_BIN"], "run", "--socket", self.socket, "--dram", str(BUDGET), "--compress", "off",
                   "--name", "job", *options, "--", sys.executable, __file__, "--job", self.progress]
        self.job = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def rounds(self):
        return int(self.progress.read_text(encoding="utf-8") or 0) if self.progress.exists() else 0

    def goes_on(self):
        before = self.rounds()
        wait_for(lambda: self.rounds() > before + 1 or self.job.poll() is not None, "the job to go on", 240)
        check(self.job.poll() is None, "the job ended early")

    def result(self):
        self.progress.with_suffix(".end").touch()
        said, errors = self.job.communicate(timeout=240)
        check(self.job.returncode == 0 and said == "wrong: 0, in a child: 0\n", f"{self.job.returncode}: {said}{errors}")
        return errors

    def drive_has(self, text):
        """In any block of the file system, in use or not."""
        os.sync()
        left = b""
        with open(self.image, "rb") as image:
            while chunk := image.read(16 * MIB):
                if text in left + chunk:
                    return True
                left = chunk[-len(text):]
        return False

    def directories(self):
        return [entry for entry in self.pool.iterdir() if entry.name.startswith(".terrace-encrypted-")]

    def end_daemon(self, how=signal.SIGTERM):
        self.daemon.send_signal(how)
        self.daemon.wait(timeout=60)

    def close(self):
        for process in (self.job, self.daemon):
            if process and process.poll() is None:
                process.kill()
                process.wait()
        subprocess.run(["umount", "--lazy", self.pool], capture_output=True, check=False)


def tier(machine):
    return next(tier for tier in machine.ask("tiers")["tiers"] if tier["tier"] == "nvme")


def test_job(directory):
    for encrypts in (False, True):
        machine = Machine(Path(directory, str(encrypts)), encrypts)
        try:
            machine.start_daemon()
            machine.start_job()
            machine.goes_on()
            wait_for(lambda: tier(machine)["used_bytes"] > BLOCKS * BLOCK_BYTES / 4, "the pool to be filled, as the daemon measures")
            check(tier(machine).get("encrypted", False) == encrypts, f"{tier(machine)}")
            check(machine.drive_has(TEXT) != encrypts, f"encrypt is {encrypts}: the text is on the drive or is not")
            machine.result()
            machine.end_daemon()
            check(machine.directories() == [], f"left behind: {machine.directories()}")
        finally:
            machine.close()


def test_restart(directory):
    machine = Machine(Path(directory, "machine"))
    try:
        machine.start_daemon()
        machine.start_job()
        machine.goes_on()
        first = machine.directories()
        check(len(first) == 1, f"one directory: {first}")
        machine.end_daemon(signal.SIGKILL)
        machine.goes_on()
        machine.start_daemon()
        wait_for(lambda: machine.ask("jobs")["jobs"], "the job to come back")
        machine.goes_on()
        check(tier(machine)["used_bytes"] > 0, f"it has its pool: {tier(machine)}")
        wait_for(lambda: len(machine.directories()) == 1, "the old directory to go")
        check(machine.directories() != first, "the next daemon has a directory of its own")
        check(not machine.drive_has(TEXT), "the text is on the drive")
        machine.end_daemon()  # takes its key back
        machine.goes_on()
        machine.result()
    finally:
        machine.close()


def test_refused(directory):
    plain = Machine(Path(directory, "plain"), features="^encrypt")
    try:
        for check_only in (["--check-config"], []):
            done = subprocess.run([os.environ["TERRACE_BIN"] + "d", *plain.config(), *check_only], capture_output=True,
                                  text=True, timeout=30, check=False)
            check(done.returncode in (1, 2) and "[pool] encrypt" in done.stderr and "tune2fs" in done.stderr,
                  f"{done.returncode}: {done.stderr}")
    finally:
        plain.close()
    machine = Machine(Path(directory, "machine"))
    try:
        machine.start_daemon()
        machine.directories()[0].rmdir()
        machine.start_job()
        machine.goes_on()
        check(not machine.drive_has(TEXT), "the text is on the drive")
        said = machine.result()
        check("makes no pool of its own" in said and "plain memory" in said, f"it was not told: {said}")
        check("no pool file can be made" in machine.log(), machine.log())
    finally:
        machine.close()


def main():
    if sys.argv[1] == "--job":
        return job(Path(sys.argv[2]))
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        try:
            {"job": test_job, "restart": test_restart, "refused": test_refused}[sys.argv[1]](directory)
        except Skipped as reason:
            print(f"SKIP: a file system that can encrypt, in a file: {reason}")
            return 77
        except Failed as problem:
            sys.exit(f"encrypted.py {sys.argv[1]}: {problem}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
