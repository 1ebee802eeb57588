#!/usr/bin/python3
"""An offload engine on an emulated GPU joins a terraced with the pager of its process, as one job: the daemon shows it, bounds
what it takes of host memory, has it back, and may die; every tensor comes back as it was stored.

The job stores three quarters of its budget in random tensors, has some written to the drive, and compares all of them as they
come back, over and over, until it is told to end. It needs no PyTorch.
"""
import ctypes
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # waiting.py
from waiting import check, wait_for

MIB = 2**20
TENSORS, TENSOR_BYTES, BUDGET, LOWERED = 96, MIB, 128 * MIB, 48 * MIB


# ---- the job ------------------------------------------------------------------------------------------------

class Engine:
    def __init__(self, directory):
        sys.path.insert(0, os.environ["TERRACE_SOURCE"] + "/liballoc/python")
        from terrace import library
        self.library, self.words = library.load(), library
        config = library.Config(size=ctypes.sizeof(library.Config), device=b"emulated:1G", dram_bytes=2 * BUDGET,
                                nvme_bytes=1024 * MIB, nvme_directory=directory.encode())
        handle, reason = ctypes.c_void_p(), ctypes.create_string_buffer(library.REASON_BYTES)
        code = self.library.open(ctypes.byref(config), ctypes.byref(handle), reason, library.REASON_BYTES)
        if code != 0:
            sys.exit(f"no engine: {reason.value.decode()}")
        self.handle = handle.value  # what is called for each tensor takes plain numbers

    def store(self, buffer):
        tensor = self.words.Tensor(size=ctypes.sizeof(self.words.Tensor), data=ctypes.addressof(buffer), bytes=len(buffer),
                                   element=self.words.ELEMENT_U8)
        number = ctypes.c_uint64()
        code = self.library.store(self.handle, ctypes.byref(tensor), None, ctypes.byref(number))
        if code == 0:
            wait_for(lambda: self.library.left(self.handle, number.value) != 0, "a tensor to leave")
        return number.value if code == 0 else None

    def fetch(self, number, buffer):
        code = self.library.fetch_arrive(self.handle, number, ctypes.addressof(buffer), 0)
        self.library.release(self.handle, number, 0)
        return code == 0

    def end_step(self):
        self.library.end_step(self.handle)


def job(directory, progress):
    engine, buffer = Engine(directory), ctypes.create_string_buffer(TENSOR_BYTES)
    rounds, wrong, kept = 0, 0, 0
    while not Path(progress + ".end").exists():
        stored = []
        for i in range(TENSORS):
            content = random.Random(rounds * TENSORS + i).randbytes(TENSOR_BYTES)
            buffer[:] = content
            number = engine.store(buffer)
            kept += number is None
            if number is not None:
                stored.append((number, hashlib.sha256(content).digest()))
        for number, digest in reversed(stored):
            buffer[:] = bytes(TENSOR_BYTES)
            wrong += not engine.fetch(number, buffer) or hashlib.sha256(buffer).digest() != digest
        engine.end_step()
        rounds += 1
        Path(progress + ".new").write_text(str(rounds), encoding="utf-8")
        os.replace(progress + ".new", progress)
    print(f"wrong: {wrong} kept: {kept}", flush=True)


# ---- the test -----------------------------------------------------------------------------------------------

def start_daemon(directory, pool_size="1G"):
    socket = Path(directory, "d.sock")
    log = open(Path(directory, "daemon.log"), "a", encoding="utf-8")
    daemon = subprocess.Popen([os.environ["TERRACE_BIN"] + "d", "--socket", socket, "--dram", "512M", "--pool", directory,
                               "--pool-size", pool_size], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    wait_for(lambda: rows(socket) is not None, "the daemon")
    return socket, daemon


def rows(socket):
    done = subprocess.run([os.environ["TERRACE_BIN"], "jobs", "--json", "--socket", socket], capture_output=True, text=True,
                          check=False)
    return json.loads(done.stdout)["jobs"] if done.returncode == 0 else None


def row(socket):
    return (rows(socket) or [{}])[0]


def set_dram(socket, size):
    subprocess.run([os.environ["TERRACE_BIN"], "set", "job", "--dram", str(size), "--socket", socket], check=True,
                   capture_output=True)


def rounds_of(progress):
    return int(Path(progress).read_text(encoding="utf-8")) if Path(progress).exists() else 0


def follow(socket, daemon, directory, progress):
    """While the job runs; the daemon that is there at the end."""
    shown = wait_for(lambda: row(socket) if row(socket).get("offload_bytes", 0) > 40 * MIB else None, "the engine to be shown")
    check(shown["devices"] == "emulated:1G" and shown["engines"] == 1, f"its device: {shown}")
    check(shown["processes"] == 1, f"two sessions of one process: {shown}")
    check(shown["budget_bytes"] == BUDGET and shown["offload_bytes"] <= BUDGET, f"one budget: {shown}")
    set_dram(socket, LOWERED)
    wait_for(lambda: 0 < row(socket).get("offload_bytes", 0) <= LOWERED, "the engine to give back")
    shown = wait_for(lambda: row(socket) if row(socket).get("resident_bytes", BUDGET) <= LOWERED else None, "both to")
    check(shown["budget_bytes"] == LOWERED, f"the budget: {shown}")
    wait_for(lambda: row(socket).get("written_bytes", 0) > 0, "the drive to take what has no room")
    os.kill(daemon.pid, signal.SIGKILL)
    daemon.wait()
    before = rounds_of(progress)
    wait_for(lambda: rounds_of(progress) >= before + 2, "the job to go on without a daemon")
    socket, daemon = start_daemon(directory)
    wait_for(lambda: row(socket).get("engines") == 1, "the engine to come back")
    return daemon


def test(directory):
    socket, daemon = start_daemon(directory)
    progress = f"{directory}/progress"
    command = [os.environ["TERRACE_BIN"], "run", "--socket", socket, "--dram", str(BUDGET), "--name", "job", "--",
               sys.executable, __file__, "--job", directory, progress]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            wait_for(lambda: running.poll() is not None or rounds_of(progress) > 0, "the first round")
            if running.poll() is not None:
                said = running.communicate()[1]
                check("page-locked" in said, f"the job ended: {said}")
                print(f"SKIP: {said.strip()}")
                return 77
            daemon = follow(socket, daemon, directory, progress)
            Path(progress + ".end").touch()
            said, errors = running.communicate(timeout=120)
            check(running.returncode == 0 and said.startswith("wrong: 0 "), f"{running.returncode}: {said}{errors}")
            wait_for(lambda: rows(socket) == [], "the job to leave")
        finally:
            running.kill()
            daemon.kill()
            daemon.wait()
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--job"]:
        job(*sys.argv[2:])
    else:
        with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as place:
            os.environ.update(XDG_RUNTIME_DIR=place, XDG_STATE_HOME=f"{place}/state")
            sys.exit(test(place))
