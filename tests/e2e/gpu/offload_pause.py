#!/usr/bin/python3
"""`terrace trim`, `pause` and `resume` of a job that has an offload engine and an optimizer beside its pager: what they have in
host memory goes to the daemon's pool and the job stands; it goes on, and every number is that of the same program without Terrace.
What has no drive stays, and its job runs on.

    offload_pause.py cpu | emulated | no_drive

Each round the job saves tensors, takes a step of Adam, and compares and sums up what comes back, until it is told to end. It needs
no PyTorch.
"""
import array
import ctypes
import hashlib
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # waiting.py
import offload_session
from waiting import check, wait_for

MIB = 2**20
TENSORS, TENSOR_BYTES, ELEMENTS, BUDGET = 12, 4 * MIB, 6_000_000, 512 * MIB
FLOOR = 3 * 4 * MIB  # the pager's, the engine's and the optimizer's
POOL = 512 * MIB  # half of it is the job's, not much more than what it has to put there


# ---- the job ------------------------------------------------------------------------------------------------

def load():
    sys.path.insert(0, os.environ["TERRACE_SOURCE"] + "/liballoc/python")
    from terrace import library
    return library, library.load()


class Engine:
    """Its drive is the daemon's pool, or a file in /var/tmp without one."""

    def __init__(self, device, drive_bytes):
        self.words, self.library = load()
        config = self.words.Config(size=ctypes.sizeof(self.words.Config), device=device.encode(), dram_bytes=64 * MIB,
                                   nvme_bytes=drive_bytes)
        handle, reason = ctypes.c_void_p(), ctypes.create_string_buffer(self.words.REASON_BYTES)
        if self.library.open(ctypes.byref(config), ctypes.byref(handle), reason, self.words.REASON_BYTES) != 0:
            sys.exit(f"no engine: {reason.value.decode()}")
        self.handle = handle.value

    def store(self, buffer):
        tensor = self.words.Tensor(size=ctypes.sizeof(self.words.Tensor), data=ctypes.addressof(buffer), bytes=len(buffer),
                                   element=self.words.ELEMENT_U8)
        number = ctypes.c_uint64()
        if self.library.store(self.handle, ctypes.byref(tensor), None, ctypes.byref(number)) != 0:
            return None
        wait_for(lambda: self.library.left(self.handle, number.value) != 0, "a tensor to leave")
        return number.value

    def fetch(self, number, buffer):
        code = self.library.fetch_arrive(self.handle, number, ctypes.addressof(buffer), 0)
        self.library.release(self.handle, number, 0)
        check(code == 0, f"a tensor is lost: {code}")

    def end_step(self):
        self.library.end_step(self.handle)


class Optimizer:
    """Adam over one parameter, its states in DRAM as far as they may be."""

    def __init__(self):
        self.words, self.library = load()
        config = self.words.OptimizerConfig(size=ctypes.sizeof(self.words.OptimizerConfig), threads=2)
        handle, number = ctypes.c_void_p(), ctypes.c_uint64()
        self.reason = ctypes.create_string_buffer(self.words.REASON_BYTES)
        told = (self.reason, self.words.REASON_BYTES)
        check(self.library.optimizer_open(ctypes.byref(config), ctypes.byref(handle), *told) == 0, self.reason.value)
        self.handle, self.steps = handle.value, 0
        code = self.library.optimizer_add(self.handle, ELEMENTS, 2, ctypes.byref(number), *told)
        check(code == 0, self.reason.value)
        self.number = number.value
        self.parameter = array.array("f", [0.5]) * ELEMENTS
        self.gradient = array.array("f", [random.Random(i).uniform(-1, 1) for i in range(1000)]) * (ELEMENTS // 1000)
        self.rule = self.words.OptimizerRule(size=ctypes.sizeof(self.words.OptimizerRule), kind=self.words.ADAM, lr=1e-3, beta1=0.9,
                                             beta2=0.999, eps=1e-8)

    def step(self):
        self.steps += 1
        address = lambda values: ctypes.c_void_p(values.buffer_info()[0])
        update = (self.words.OptimizerUpdate * 1)(self.words.OptimizerUpdate(
            size=ctypes.sizeof(self.words.OptimizerUpdate), id=self.number, parameter=address(self.parameter),
            gradient=address(self.gradient), step=self.steps, rule=ctypes.pointer(self.rule)))
        failed = ctypes.c_size_t()
        code = self.library.optimizer_step(self.handle, update, 1, None, ctypes.byref(failed), self.reason, self.words.REASON_BYTES)
        check(code == 0, self.reason.value)


def job(device, drive_bytes, progress):
    """Rounds until `progress`.end, which may say how many; while `progress`.hold is there, it waits with its tensors saved."""
    engine, optimizer, buffer = Engine(device, int(drive_bytes)), Optimizer(), ctypes.create_string_buffer(TENSOR_BYTES)
    digest, end = b"", Path(progress + ".end")
    for number in itertools.count(1):
        saved = []
        for i in range(TENSORS):
            buffer[:] = random.Random(number * TENSORS + i).randbytes(TENSOR_BYTES)
            saved.append(engine.store(buffer))
        optimizer.step()
        Path(progress + ".new").write_text(str(number), encoding="utf-8")
        os.replace(progress + ".new", progress)
        if Path(progress + ".hold").exists():
            wait_for(lambda: not Path(progress + ".hold").exists(), "to be let go on", 60)
        for i in reversed(range(TENSORS)):
            if saved[i] is None:
                buffer[:] = random.Random(number * TENSORS + i).randbytes(TENSOR_BYTES)
            else:
                buffer[:] = bytes(TENSOR_BYTES)
                engine.fetch(saved[i], buffer)
            digest = hashlib.sha256(digest + hashlib.sha256(buffer).digest()).digest()
        engine.end_step()
        digest = hashlib.sha256(digest + hashlib.sha256(optimizer.parameter).digest()).digest()
        if end.exists() and number >= int(end.read_text(encoding="utf-8") or 0):
            return print(number, digest.hex(), flush=True)


# ---- the test -----------------------------------------------------------------------------------------------

class Job:
    def __init__(self, directory, socket, device, drive_bytes):
        self.socket, self.progress = socket, f"{directory}/progress"
        self.command = [sys.executable, __file__, "--job", device, str(drive_bytes)]
        self.running = subprocess.Popen(
            [os.environ["TERRACE_BIN"], "run", "--socket", socket, "--dram", str(BUDGET), "--name", "job", "--", *self.command,
             self.progress], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_for(lambda: self.running.poll() is not None or self.rounds() > 1, "the first rounds", 60)

    def rounds(self):
        return offload_session.rounds_of(self.progress)

    def goes_on(self):
        before = self.rounds()
        wait_for(lambda: self.rounds() > before + 1, "the job to go on", 60)

    def hold(self):
        Path(self.progress + ".hold").touch()
        before = self.rounds()
        wait_for(lambda: self.rounds() > before, "it to hold", 60)

    def release(self):
        Path(self.progress + ".hold").unlink()

    def terrace(self, verb):
        return subprocess.run([os.environ["TERRACE_BIN"], verb, "job", "--json", "--socket", self.socket], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False)

    def answer(self, verb):
        done = self.terrace(verb)
        check(done.returncode == 0, f"terrace {verb}: {done.returncode}, {done.stderr}")
        return json.loads(done.stdout)

    def status(self, word):
        lines = Path(f"/proc/{self.running.pid}/status").read_text(encoding="utf-8").splitlines()
        return next(line.split()[1] for line in lines if line.startswith(word + ":"))

    def resident_bytes(self):
        return int(self.status("RssAnon")) * 1024

    def pool_bytes(self):
        """What its files take up on the drive."""
        done = subprocess.run([os.environ["TERRACE_BIN"], "tiers", "--json", "--socket", self.socket], capture_output=True, text=True,
                              check=True)
        return next(tier["used_bytes"] for tier in json.loads(done.stdout)["tiers"] if tier["tier"] == "nvme")

    def pause(self):
        answer = self.answer("pause")
        check(answer["resident_bytes"] <= FLOOR, answer)
        check(self.status("State") == "T", f"the process is in state {self.status('State')}")
        return answer

    def check_result(self, directory):
        Path(self.progress + ".end").touch()
        said, errors = self.running.communicate(timeout=120)
        check(self.running.returncode == 0, f"{self.running.returncode}: {errors}")
        stock = f"{directory}/stock"
        Path(stock + ".end").write_text(said.split()[0], encoding="utf-8")
        alone = subprocess.run([*self.command, stock], stdout=subprocess.PIPE, text=True, check=True).stdout
        check(alone == said, f"another result: {said} and without Terrace {alone}")


def test_pause(running):
    running.hold()
    before = running.resident_bytes()
    moved = running.pause()
    check(moved["previous_resident_bytes"] >= TENSORS * TENSOR_BYTES + 40 * MIB, moved)
    check(running.resident_bytes() <= before - 80 * MIB, f"{before} and then {running.resident_bytes()} bytes")
    check(running.status("VmLck") == "0" or int(running.status("VmLck")) * 1024 <= 4 * MIB, running.status("VmLck"))
    wait_for(lambda: running.pool_bytes() >= moved["previous_resident_bytes"] - FLOOR, "the daemon to see its files")
    check(running.pool_bytes() <= POOL // 2, f"{running.pool_bytes()} bytes of its pool are taken up")
    check(running.answer("resume")["budget_bytes"] == BUDGET, "its budget")
    running.release()
    running.goes_on()
    running.pause()  # wherever it is
    running.answer("resume")
    running.goes_on()
    (trimmed,) = running.answer("trim")["jobs"]
    check(trimmed["processes"] == 3, trimmed)  # sessions: the pager's, the engine's, the optimizer's


def test_no_drive(running):
    running.hold()
    done = running.terrace("pause")
    check(done.returncode == 1, f"{done.returncode}: {done.stdout}{done.stderr}")
    check("what is offloaded of cpu, for which it has no drive" in done.stderr, done.stderr)
    check("runs on with its budget as before" in done.stderr, done.stderr)
    check(running.status("State") != "T", "it was stopped")
    running.release()
    running.goes_on()


def test(directory, which):
    socket, daemon = offload_session.start_daemon(directory, pool_size=str(POOL))
    device = "emulated:1G" if which == "emulated" else "cpu"
    running = Job(directory, socket, device, 0 if which == "no_drive" else 1024 * MIB)
    try:
        if running.running.poll() is not None:
            said = running.running.communicate()[1]
            check("page-locked" in said, f"the job ended: {said}")
            print(f"SKIP: {said.strip()}")
            return 77
        (test_no_drive if which == "no_drive" else test_pause)(running)
        running.check_result(directory)
    finally:
        running.running.kill()
        running.running.wait()
        daemon.kill()
        daemon.wait()
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "--job":
        job(*sys.argv[2:])
    else:
        with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as place:
            os.environ.update(XDG_RUNTIME_DIR=place, XDG_STATE_HOME=f"{place}/state")
            library = Path(os.environ["TERRACE_PRELOAD"]).with_name("libterrace_gpu.so")
            os.environ.setdefault("TERRACE_GPU_LIBRARY", str(library))
            sys.exit(test(place, sys.argv[1]))
