#!/usr/bin/python3
"""A job with NVM before its pool: its data is right, and what lay on NVM is told.

    nvm.py move|mremap     a directory (in memory: /dev/shm) that holds a part of what leaves; the rest goes to the drive
    nvm.py compressed      the same behind compressed DRAM
    nvm.py node            a NUMA node: node0, since this machine need not have a slow one
    nvm.py fills           the directory's file system fills up while the job runs
    nvm.py damage          NVM fails while the job runs: what cannot be written there goes on
    nvm.py daemon          the job's daemon is killed while it runs
    nvm.py service         a service that has NVM: jobs that name no tier get some of it, and never more than there is
    nvm.py refused         what cannot be had is refused, or done without and said

The job holds three times its budget. It reads all of it again and again in two orders, changes some, and reads it in a
forked child.
"""
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # waiting.py
from kept import BUDGET, MIB, use
from waiting import Failed, check, wait_for

NVM = 96 * MIB  # of the 256 MiB that are away
NVM_PACE = 512 * MIB  # a second, where speeds are measured


class Skipped(Exception):
    pass


# ---- the job ------------------------------------------------------------------------------------------------

def kill_daemon():
    """The private one of this job; the library starts another."""
    socket = os.environ["TERRACE_SOCKET"].encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"terraced" in words[0] and any(socket in word for word in words):
            os.kill(int(process.name), signal.SIGKILL)
            return
    raise Failed("no daemon of this job was found")


def job(how):
    def between(step):
        if step == 1 and how == "daemon":
            kill_daemon()
        if step == 0 and how == "service":
            time.sleep(0.5)  # until the daemon has counted

    if how == "fills":
        fill(Path(os.environ["PLACE"]))
    result, _blocks = use(between)
    print(json.dumps(result), flush=True)
    time.sleep(0.5)  # until what lies where was told once more; the blocks are there to the end
    os._exit(0)


# ---- what the test does with it -----------------------------------------------------------------------------

def run(how, tiers, directory, *options, before=(), environment=None):
    summary = Path(directory) / "summary.json"
    command = [os.environ["TERRACE_BIN"], "run", "--dram", str(BUDGET), "--json-summary", summary]
    command += [] if tiers is None else ["--tiers", tiers]
    command += [*options, "--", *before, sys.executable, __file__, "--job", how]
    done = subprocess.run(command, env=dict(os.environ, XDG_RUNTIME_DIR=directory, **(environment or {})),
                          capture_output=True, text=True, check=False)
    check(done.returncode == 0, f"{' '.join(map(str, command))}\nexit code {done.returncode}\n{done.stdout}{done.stderr}")
    counters = json.loads(summary.read_text())["counters"]
    if counters.get("pager") != "active":
        raise Skipped(f"no pager here: {done.stderr}")
    result = json.loads(done.stdout.splitlines()[-1])
    check(result == {"wrong": 0, "wrong_in_a_child": 0}, f"wrong data: {result}")
    check(counters["resident_peak_bytes"] <= BUDGET + 8 * MIB, f"over the budget: {counters}")
    return counters, done.stderr


def private(how, tiers, directory, *options, **more):
    return run(how, tiers, directory, "--private", "--pool", directory, *options, **more)


def check_used(counters, most_bytes=NVM):
    """Both were used: NVM, until it was full, and the drive."""
    for name in ("nvm_written_bytes", "nvm_read_bytes", "written_bytes", "read_bytes"):
        check(counters[name] > 0, f"{name} is 0: {counters}")
    check(0 < counters["nvm_bytes"] <= most_bytes, f"{counters['nvm_bytes']} of {most_bytes} are said to lie on NVM")


def in_directory(how, directory):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        environment = {"TERRACE_MOVER": how}
        counters, said = private(how, f"nvm={NVM}@{memory}", directory, "--compress", "off", environment=environment)
        check("NVM" not in said, said)
        check_used(counters)
        check(counters["nvm_bytes"] > NVM // 2, f"NVM stayed empty: {counters['nvm_bytes']}")
        check(counters["kept_bytes"] == 0, "nothing is compressed here")


def behind_compressed(how, directory):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        counters, _ = private(how, f"nvm={NVM}@{memory},compressed=20%", directory, "--compress", "zvc_exp")
    check_used(counters)
    check(counters["kept_bytes"] > 0 and counters["fetched_bytes"] > 0, f"nothing was kept compressed: {counters}")


def on_a_node(how, directory):
    counters, said = private(how, f"nvm={NVM}@node0", directory, "--compress", "off")
    if "EPERM" in said or "ENOSYS" in said:
        raise Skipped(f"nobody may say on which NUMA nodes memory lies here: {said}")
    check_used(counters)


def mounted(directory, size):
    """A file system in memory that only this process and its children see."""
    libc = ctypes.CDLL(None, use_errno=True)
    new_mounts, private_ones = 0x20000, 0x44000
    if libc.unshare(new_mounts) != 0 or libc.mount(b"none", b"/", None, private_ones, None) != 0:
        raise Skipped("no file system can be mounted here")
    place = Path(directory) / "small"
    place.mkdir()
    if libc.mount(b"none", str(place).encode(), b"tmpfs", 0, f"size={size}".encode()) != 0:
        raise Skipped("no file system can be mounted here")
    return place


def that_fills(how, directory):
    place = mounted(directory, 128 * MIB)
    counters, _ = private(how, f"nvm={NVM}@{place}", directory, "--compress", "off", environment={"PLACE": str(place)})
    check((place / "other").exists(), "the file system was not filled while the job ran")
    check_used(counters)
    check(counters["nvm_bytes"] < NVM // 2, f"it was full, and {counters['nvm_bytes']} lie there")
    check(counters["io_errors"] == 0, f"a full file system is no error: {counters}")


def fill(place):
    """All but a third of what the job was promised there: it finds the file system full in the middle of its first step."""
    with open(place / "other", "wb") as other:
        os.posix_fallocate(other.fileno(), 0, os.statvfs(place).f_bavail * os.statvfs(place).f_bsize - NVM // 3)


def damaged(how, directory):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        counters, said = private(how, f"nvm={NVM}@{memory}", directory, "--compress", "off",
                                 environment={"TERRACE_FAULT": "nvm-reserve:20:EIO"})
        check_used(counters)
        check(counters["nvm_bytes"] <= 40 * MIB, f"it was damaged after 19 runs, and {counters['nvm_bytes']} lie there")
        counters, said = private(how, f"nvm={NVM}@{memory}", directory, "--compress", "off",
                                 environment={"TERRACE_FAULT": "nvm-write:10:ENOSPC"})
        check("writing to NVM failed" in said and "the pool failed" not in said, said)
        check(counters["lost_runs"] == 0 and counters["nvm_read_bytes"] > 0, f"{counters}\n{said}")


def without_daemon(how, directory):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        counters, _ = private(how, f"nvm={NVM}@{memory}", directory, "--compress", "off")
    check_used(counters)


class Service:
    """terraced with NVM for all jobs, in a directory in memory; it can be killed, and started anew."""

    def __init__(self, directory, memory):
        self.socket, self.process = Path(directory) / "d.sock", None
        self.config = Path(directory) / "terraced.toml"
        self.config.write_text(f'[[tier]]\nkind = "nvm"\nsize = "{NVM}B"\ndirectory = "{memory}"\n'
                               '[[tier]]\nkind = "compressed"\nsize = "20%"\n'
                               f'[[tier]]\nkind = "nvme"\ndirectory = "{directory}"\nsize = "2G"\n', encoding="utf-8")
        self.log = Path(directory) / "log"

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([os.environ["TERRACE_BIN"] + "d", "--config", self.config, "--socket", self.socket,
                                             "--dram", "1G"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_for(lambda: self.tiers() is not None, f"the daemon: {self.log.read_text(encoding='utf-8')}")

    def tiers(self):
        done = subprocess.run([os.environ["TERRACE_BIN"], "tiers", "--json", "--socket", self.socket], capture_output=True,
                              text=True, check=False)
        return json.loads(done.stdout)["tiers"] if done.returncode == 0 else None

    def nvm(self):
        return next(tier for tier in self.tiers() if tier["tier"] == "nvm")

    def job(self, directory, name, *options):
        return run("service", None, directory, "--socket", self.socket, "--name", name, *options)


def of_a_service(how, directory):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory, Service(directory, memory) as service:
        kept, _ = service.job(directory, "both", "--compress", "zvc_exp")
        check_used(kept)
        check(kept["kept_bytes"] > 0, f"its tiers have compressed DRAM: {kept}")
        plain, _ = service.job(directory, "nvm", "--compress", "off")
        check_used(plain)
        check(plain["kept_bytes"] == 0, "a job that forbids compressing has NVM all the same")
        none, _ = service.job(directory, "none", "--compress", "off", "--tiers", "none")
        check(none["nvm_written_bytes"] == 0 and none["written_bytes"] > 0, f"it declined: {none}")
        asked, _ = service.job(directory, "some", "--compress", "off", "--tiers", "nvm=16M")
        check(0 < asked["nvm_bytes"] <= 16 * MIB, f"it asked for 16 MiB: {asked}")
        check(service.nvm()["promised_bytes"] == 0, "a promise outlives its job")
        shared_by_two(service, directory)


def shared_by_two(service, directory):
    """Both together have no more than there is, and both are right; the service is killed meanwhile and comes back."""
    jobs = []
    for number in range(2):
        place = Path(directory) / str(number)
        place.mkdir()
        command = [sys.executable, __file__, "--under", service.socket, place, f"job{number}"]
        jobs.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    wait_for(lambda: service.nvm()["used_bytes"] > 0 and service.nvm()["promised_bytes"] == NVM, "both to have NVM", 120)
    check(service.nvm()["used_bytes"] <= NVM, f"more is used than there is: {service.nvm()}")
    speeds_are_measured(service)
    service.process.send_signal(signal.SIGKILL)
    service.process.wait()
    service.start()
    wait_for(lambda: service.nvm()["promised_bytes"] == NVM and service.nvm()["used_bytes"] > 0,
             "what they have on NVM to be promised to nobody else")
    for one in jobs:
        said, _ = one.communicate()
        check(one.returncode == 0, said)


def speeds_are_measured(service):
    """Of NVM and of the drive, both ways; NVM is as fast as it can be with the pace that its jobs have there."""
    ways = ("measured_read_bytes_per_second", "measured_write_bytes_per_second")

    def measured(kind):
        tier = next(tier for tier in service.tiers() if tier["tier"] == kind)
        return [tier.get(way, 0) for way in ways]

    wait_for(lambda: all(measured("nvm") + measured("nvme")), "what was moved to be measured", 120)
    check(max(measured("nvm")) <= NVM_PACE * 1.001, f"faster than it can be: {measured('nvm')}")
    check(not any(way in tier for tier in service.tiers() for way in ways if tier["tier"] == "dram"), "none of DRAM's own")


def under(socket, directory, name):
    """One of two jobs of a service that is killed: its counters are lost with it, its data is not."""
    command = [os.environ["TERRACE_BIN"], "run", "--dram", str(BUDGET), "--socket", socket, "--name", name, "--compress", "off",
               "--", sys.executable, __file__, "--job", "service"]
    environment = dict(os.environ, XDG_RUNTIME_DIR=directory, TERRACE_FAULT=f"nvm-pace:{NVM_PACE}")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    print(done.stdout, done.stderr)
    return 0 if json.loads(done.stdout.splitlines()[-1]) == {"wrong": 0, "wrong_in_a_child": 0} else 1


def refused(how, directory):
    def words(tiers, *options):
        command = [os.environ["TERRACE_BIN"], "run", "--private", "--dram", "64M", *options, "--tiers", tiers, "--", "true"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        check(done.returncode != 0, f"--tiers {tiers} was taken")
        return done.stderr

    check("write compressed=SIZE" in words("nvme=4G"), "what is accepted is said")
    check("is not a directory; name one on persistent memory" in words("nvm=4M@/nonexistent"), "a directory that is none")
    check("free; ask for less" in words("nvm=4T@/dev/shm"), "more than there is")
    # Named to the library alone: the program runs, and a line says why there is no NVM.
    for tiers, why in ((f"nvm={NVM}@/nonexistent", "no file for NVM can be made in /nonexistent, errno 2 (ENOENT)"),
                       ("nvm=4T@/dev/shm", "ask for less"),
                       (f"nvm={NVM}", "no NUMA node here is slow memory")):
        if tiers == f"nvm={NVM}" and list(Path("/sys/devices/virtual/memory_tiering").glob("memory_tier[1-9][0-9]*")):
            continue  # there may be one
        counters, said = private("refused", None, directory, "--compress", "off", before=("env", f"TERRACE_TIERS={tiers}"))
        check(why in said and "does without NVM" in said, f"{tiers}: {said}")
        check(counters["nvm_written_bytes"] == 0 and counters["written_bytes"] > 0, f"{tiers}: {counters}")


TESTS = {"move": in_directory, "mremap": in_directory, "compressed": behind_compressed, "node": on_a_node,
         "fills": that_fills, "damage": damaged, "daemon": without_daemon, "service": of_a_service,
         "refused": refused}


def main(how):
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as directory:
        try:
            TESTS[how](how, directory)
        except Skipped as why:
            print(f"SKIP: {why}")
            return 77
        except Failed as why:
            print(why)
            return 1
        finally:
            if how == "fills":
                subprocess.run(["umount", "-q", Path(directory) / "small"], check=False)
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "--job":
        job(sys.argv[2])
    elif sys.argv[1] == "--under":
        sys.exit(under(*sys.argv[2:5]))
    else:
        sys.exit(main(sys.argv[1]))
