"""The parent's side of child.py: starts a contender's process, asks it for steps, and says why it failed.

A failure is an outcome (ChildFailed), not the end of the benchmark: running out of memory is a result, too.
"""
import json
import os
import select
import subprocess
import sys
from pathlib import Path

CHILD = Path(__file__).resolve().parent / "child.py"


class ChildFailed(Exception):
    def __init__(self, text, out_of_memory=False):
        super().__init__(text)
        self.out_of_memory = out_of_memory


class Child:
    """A context; leaving it ends the process. `launcher` stands before the command, as `terrace run … --`."""

    def __init__(self, config, log, launcher=(), environment=None, timeout_seconds=300):
        self._command = [*map(str, launcher), sys.executable, str(CHILD), json.dumps(config)]
        self._environment = os.environ | threads_environment(config["threads"]) | (environment or {})
        self._log_path, self._timeout = Path(log), timeout_seconds

    def __enter__(self):
        with open(self._log_path, "wb") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                                             env=self._environment)
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def ask(self, do, **arguments):
        """The answer to one request. Raises ChildFailed."""
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended; its last answer, or its log, says why
        answer = self._answer()
        if "error" in answer:
            raise ChildFailed(answer["error"], answer.get("out_of_memory", False))
        return answer

    def log_lines(self):
        return self._log_path.read_text(encoding="utf-8", errors="replace").strip().splitlines()

    def _answer(self):
        ready, _, _ = select.select([self._process.stdout], [], [], self._timeout)
        if not ready:
            self._process.kill()
            raise ChildFailed(f"gave no answer in {self._timeout:.0f} s")
        line = self._process.stdout.readline()
        if line:
            return json.loads(line)
        code = self._process.wait()
        ended = f"ended by signal {-code}" if code < 0 else f"exit code {code}"
        said = "".join(f"; {line}" for line in self.log_lines()[-2:])
        raise ChildFailed(ended + said, "std::bad_alloc" in said)  # thrown where nobody catches it


def threads_environment(threads):
    """As many for libraries that start threads by themselves, and idle ones leave the processor to the others. The C
    library keeps what is freed: else each step's tensors are mapped and zeroed anew, in some processes and not in
    others, and a GPU's memory is not like that."""
    return {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive",
            "MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_ARENA_MAX": "1"}
