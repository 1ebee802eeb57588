#!/usr/bin/env python3
"""Kill campaigns: the daemon, or the job, is killed at random points while the stress program verifies every page.

  tests/stress/campaign.py                                     short form, as CI runs it
  tests/stress/campaign.py --daemon-kills 1000 --job-kills 200 full form (about 20 minutes)

Daemon kills: one stress job runs per move path with a private daemon that its own library restarts; whoever
listens on the job's socket gets SIGKILL (sometimes SIGSTOP for a moment first), again and again. The job must
end by itself with no wrong byte, and each new daemon must come; the table names the slowest.
Job kills: stress jobs are started and killed after a random time, with all their children. Afterwards no
process may hold a deleted file in the pool directory, nothing may be left in it by name, the free space of the
file system must be back, and the memory cgroup that the jobs ran in must be empty.

Each stands for itself: the campaign signals only processes that it started or that listen on its own sockets.
Exit status: 0 nothing went wrong, 1 something did, 2 it could not be run, 77 not possible here.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
HANG_S = 120  # a job that has not ended this long after its time is called hung
RETURN_S = 30  # a daemon that is not back by then is called lost; busy machines stand still for seconds


class Tally(dict):
    """Counts by name; what matters for the verdict is listed in `bad`."""

    bad = ("wrong_bytes", "hangs", "failed_jobs", "leaked_files", "leaked_names", "leaked_bytes", "leaked_memory_bytes",
           "daemons_not_back", "leftover_daemons")

    def add(self, name, amount=1):
        self[name] = self.get(name, 0) + amount

    def is_clean(self):
        return not any(self.get(name, 0) for name in self.bad)


def parse_arguments():
    parser = argparse.ArgumentParser(description="Kill daemon and jobs at random points under verification.")
    parser.add_argument("--daemon-kills", type=int, default=20)
    parser.add_argument("--job-kills", type=int, default=10)
    parser.add_argument("--movers", nargs="+", default=["move", "mremap"], choices=["move", "mremap"])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--pool", type=pathlib.Path, default=pathlib.Path("/var/tmp"))
    parser.add_argument("--bytes", default="384M")
    parser.add_argument("--dram", default="192M")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    options.build = options.build.resolve()  # the library restarts only a daemon with an absolute path
    options.pool = options.pool.resolve()
    return options


class Bench:
    """A directory, the programs under test, and the environment of a job."""

    def __init__(self, options):
        self.options = options
        self.jobs = []
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="terrace-campaign-", dir=options.pool))
        self.file_system = OwnFileSystem(self.directory)
        self.program = options.build / "bin/terrace-stress"
        self.daemon = options.build / "bin/terraced"
        self.preload = options.build / "lib/libterrace_preload.so"
        for needed in (self.program, self.daemon, self.preload):
            if not needed.exists():
                sys.exit(f"campaign: {needed} is missing; build it or name another --build")

    def environment(self, mover, name):
        return dict(os.environ, LD_PRELOAD=str(self.preload), TERRACE_DRAM=self.options.dram, TERRACE_MOVER=mover,
                    TERRACE_COMPRESS="auto",
                    TERRACE_JOB=name, TERRACE_SOCKET=str(self.socket(name)),
                    TERRACE_DAEMON=str(self.daemon))

    def socket(self, name):
        return self.directory / f"{name}.sock"

    def start_daemon(self, name):
        # Later ones are started by the job's library, with the settings that this one leaves beside its socket.
        subprocess.Popen([self.daemon, "--private", "--socket", self.socket(name), "--dram", "2G", "--pool",
                          self.directory, "--pool-size", "4G"],
                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                         start_new_session=True)
        if not wait_until(lambda: listener_of(self.socket(name)), RETURN_S):
            sys.exit("campaign: the daemon did not start listening")

    def start_job(self, mover, name, seconds, seed, preexec=None):
        output = open(self.directory / f"{name}.log", "w+")
        command = [self.program, "--seconds", str(seconds), "--threads", "4", "--bytes", self.options.bytes,
                   "--seed", str(seed)]
        job = subprocess.Popen(command, env=self.environment(mover, name), stdin=subprocess.DEVNULL, stdout=output,
                               stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=preexec)
        job.log = output
        self.jobs.append(job)
        return job

    def kill_leftovers(self):
        """An interrupted campaign leaves no job behind; private daemons end with their last job."""
        for job in self.jobs:
            if job.poll() is None:
                kill_group(job)


def wait_until(condition, seconds):
    deadline = time.monotonic() + seconds
    while True:
        result = condition()
        if result or time.monotonic() > deadline:
            return result
        time.sleep(0.01)


def listener_of(path):
    """The process that listens on a socket of ours, or None."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        client.settimeout(1)
        try:
            client.connect(str(path))
            pid, _, _ = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            return pid
        except OSError:
            return None


def is_running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def reap(job, tally, seconds):
    """Waits for a job that should end by itself and reads what it found."""
    try:
        status = job.wait(seconds)
    except subprocess.TimeoutExpired:
        tally.add("hangs")
        kill_group(job)
        status = None
    job.log.seek(0)
    text = job.log.read()
    job.log.close()
    if "WRONG BYTES" in text:
        tally.add("wrong_bytes")
    if status != 0:
        tally.add("failed_jobs")
        print(f"job ended with {status}:\n{text}", file=sys.stderr)
    return text


def kill_group(job):
    try:
        os.killpg(job.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    job.wait()


def kill_daemons(bench, mover, kills, rng, tally):
    name = f"daemon-{mover}"
    bench.start_daemon(name)
    job = bench.start_job(mover, name, 10 * kills + 60, rng.randrange(1 << 30))  # SIGTERM ends it in order
    time.sleep(0.5)
    slowest = 0.0
    for _ in range(kills):
        time.sleep(rng.uniform(0.0, 0.4))
        if job.poll() is not None:
            break  # reap() says why
        pid = listener_of(bench.socket(name))
        if pid is None:
            tally.add("daemons_not_back")
            break
        if rng.random() < 0.2:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(rng.uniform(0, 0.05))
        os.kill(pid, signal.SIGKILL)
        tally.add("daemon_kills")
        begin = time.monotonic()
        if not wait_until(lambda: listener_of(bench.socket(name)) not in (None, pid), RETURN_S):
            tally.add("daemons_not_back")
            break
        slowest = max(slowest, time.monotonic() - begin)
    tally["slowest_daemon_return_s"] = round(max(slowest, tally.get("slowest_daemon_return_s", 0)), 3)
    last = listener_of(bench.socket(name))
    job.terminate()
    reap(job, tally, HANG_S)
    # Seen by its process: a connection, even one that only looks, would keep it alive.
    if last and not wait_until(lambda: not is_running(last), 30):
        tally.add("leftover_daemons")
        os.kill(last, signal.SIGKILL)


class MemoryGroup:
    """A memory cgroup to count what dead jobs leave behind; absent where none can be made."""

    def __init__(self):
        self.v1 = os.path.isdir("/sys/fs/cgroup/memory")
        base = pathlib.Path("/sys/fs/cgroup/memory" if self.v1 else "/sys/fs/cgroup")
        self.path = base / f"terrace-campaign-{os.getpid()}"
        try:
            self.path.mkdir()
        except OSError:
            self.path = None

    def join(self):
        if self.path:
            (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def anonymous_bytes(self):
        """Memory of processes; the page cache that files leave is not a leak."""
        if not self.path:
            return 0
        fields = dict(line.split() for line in (self.path / "memory.stat").read_text().splitlines())
        return int(fields["rss" if self.v1 else "anon"])

    def close(self):
        if self.path:
            wait_until(lambda: try_rmdir(self.path), 5)


def try_rmdir(path):
    try:
        path.rmdir()
        return True
    except OSError:
        return False


def deleted_files(directory):
    """Unlinked files below `directory` that some process still holds open."""
    found = []
    for process in pathlib.Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            for fd in (process / "fd").iterdir():
                target = os.readlink(fd)
                if target.startswith(str(directory)) and target.endswith("(deleted)"):
                    found.append((process.name, target))
        except OSError:
            continue
    return found


class OwnFileSystem:
    """A file system that nobody else writes to, mounted over `directory`: what is free there tells what was leaked.

    Needs root and a loop device. Without them the directory stays part of a file system that others may fill meanwhile.
    """

    BYTES = 16 << 30  # of a sparse file

    def __init__(self, directory):
        self.directory = directory
        self.image = directory.with_suffix(".img")
        try:
            with open(self.image, "wb") as image:
                image.truncate(self.BYTES)
            subprocess.run(["mkfs.ext4", "-q", "-m", "0", self.image], check=True, capture_output=True)
            subprocess.run(["mount", "-o", "loop", self.image, directory], check=True, capture_output=True)
            self.is_mounted = True
        except (OSError, subprocess.CalledProcessError):
            self.is_mounted = False
            self.image.unlink(missing_ok=True)

    def slack(self):
        """What may be missing that was not leaked: logs, or what others wrote."""
        return (16 if self.is_mounted else 256) << 20

    def close(self):
        if not self.is_mounted:
            return
        subprocess.run(["umount", "--lazy", self.directory], check=False)
        self.image.unlink(missing_ok=True)


def free_bytes(directory):
    status = os.statvfs(directory)
    return status.f_bfree * status.f_frsize


def kill_jobs(bench, mover, kills, rng, tally, group):
    name = f"job-{mover}"
    bench.start_daemon(name)
    for _ in range(kills):
        job = bench.start_job(mover, name, 60, rng.randrange(1 << 30), group.join)
        time.sleep(rng.uniform(0.05, 1.5))
        if job.poll() is not None:
            reap(job, tally, 1)
            continue
        kill_group(job)
        job.log.seek(0)
        if "WRONG BYTES" in job.log.read():
            tally.add("wrong_bytes")
        job.log.close()
        tally.add("job_kills")
        # The private daemon lives on for the next job; what it keeps of this one must be gone within a second.
        if not wait_until(lambda: not deleted_files(bench.directory), 1.5):
            tally.add("leaked_files", len(deleted_files(bench.directory)))
        if listener_of(bench.socket(name)) is None:
            bench.start_daemon(name)
    pid = listener_of(bench.socket(name))
    if pid:
        os.kill(pid, signal.SIGTERM)
    wait_until(lambda: listener_of(bench.socket(name)) is None, 5)


def count_leftovers(bench, tally, free_before, group):
    wait_until(lambda: not deleted_files(bench.directory), 5)
    tally.add("leaked_files", len(deleted_files(bench.directory)))
    known = {".sock", ".toml", ".log", ".lock"}
    names = [entry for entry in bench.directory.iterdir() if entry.name != "lost+found"]
    tally.add("leaked_names", sum(1 for entry in names if entry.suffix not in known))
    slack = bench.file_system.slack()
    wait_until(lambda: free_before - free_bytes(bench.directory) < slack, 5)
    lost = free_before - free_bytes(bench.directory)
    tally.add("leaked_bytes", lost if lost > slack else 0)
    wait_until(lambda: group.anonymous_bytes() < 1 << 20, 5)
    left = group.anonymous_bytes()
    tally.add("leaked_memory_bytes", left if left >= 1 << 20 else 0)


def print_table(tally):
    for name, value in tally.items():
        print(f"  {name.replace('_', ' '):28} {value}")
    print("nothing went wrong" if tally.is_clean() else "SOMETHING WENT WRONG")


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = parse_arguments()
    rng = random.Random(options.seed)
    bench = Bench(options)
    tally = Tally({name: 0 for name in Tally.bad} | {"daemon_kills": 0, "job_kills": 0, "seed": options.seed})
    free_before = free_bytes(bench.directory)
    group = MemoryGroup()
    try:
        for i, mover in enumerate(options.movers):
            share = lambda total: total // len(options.movers) + (1 if i < total % len(options.movers) else 0)
            kill_daemons(bench, mover, share(options.daemon_kills), rng, tally)
            kill_jobs(bench, mover, share(options.job_kills), rng, tally, group)
        count_leftovers(bench, tally, free_before, group)
    finally:
        bench.kill_leftovers()
        group.close()
        bench.file_system.close()
        shutil.rmtree(bench.directory, ignore_errors=True)
    print_table(tally)
    if options.json:
        options.json.write_text(json.dumps({"format": "terrace-campaign", "version": 1, "movers": options.movers,
                                            "clean": tally.is_clean(), **tally}, indent=2) + "\n")
    return 0 if tally.is_clean() else 1


if __name__ == "__main__":
    sys.exit(main())
