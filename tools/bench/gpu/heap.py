"""Section `heap`: calls of the GPU heap beside PyTorch's caching allocator.

On CUDA both through torch.empty(), in processes of their own that take turns (heap_calls.py). On the emulated
device terrace-bench-gpu-heap replays a recorded job's allocations on the heap and on a model of that allocator.
"""
import json
import os
import subprocess
from pathlib import Path
from statistics import median

from copies import run_script

CALLS = Path(__file__).resolve().parent / "heap_calls.py"
REPEATS = 2000
TIMEOUT_SECONDS = 120


def heap(arguments, scratch, environment, terrace, library):
    if not arguments.gpu.is_cuda:
        return replay(scratch, terrace)
    if library is None:
        return {"skipped": "libterrace_gpu.so was not found beside the terrace command"}
    return calls(arguments, environment, library)


def calls(arguments, environment, library):
    turns = {"pytorch": [], "terrace": []}
    for number in range(min(3, arguments.rounds)):
        for allocator in ("pytorch", "terrace") if number % 2 == 0 else ("terrace", "pytorch"):
            config = {"place": arguments.gpu.spec, "allocator": allocator, "library": str(library), "repeats": REPEATS}
            result = run_script(CALLS, config, os.environ | environment | {"TERRACE_GPU": arguments.gpu.spec})
            if "failure" in result:
                return {"failure": f"{allocator}: {result['failure']}"}
            turns[allocator].append(result)
    return {"nanoseconds": {name: {size: median(turn[size] for turn in results) for size in results[0]}
                            for name, results in turns.items()}, "turns": turns}


def replay(scratch, terrace):
    program = terrace.parent / "terrace-bench-gpu-heap" if terrace else None
    if program is None or not program.is_file():
        return {"skipped": "terrace-bench-gpu-heap was not found beside the terrace command"}
    out = scratch / "heap.json"
    try:
        result = subprocess.run([program, "--json", out], text=True, capture_output=True, timeout=TIMEOUT_SECONDS,
                                check=False)
    except subprocess.TimeoutExpired:
        return {"failure": f"terrace-bench-gpu-heap did not finish in {TIMEOUT_SECONDS} s"}
    if result.returncode == 0:
        return {"replay": json.loads(out.read_text(encoding="utf-8"))}
    said = "".join((result.stderr or result.stdout).strip().splitlines()[-1:])
    if "cannot be read" in said:
        return {"skipped": "the recorded profile is not here; terrace bench gpu-heap --profile FILE names one"}
    return {"failure": f"terrace-bench-gpu-heap: {said}"}
