#!/usr/bin/python3
"""terrace bench gpu: what keeping tensors off the GPU costs and saves, beside what else one could do.

Runs on a CUDA GPU where there is one, else on CPU tensors with the emulated device, and says which. On the emulated
device the processor is the GPU: the figures say what the engine does with links of the set speed, not what a GPU
does.

  steps     each contender beside plain in turns: step time, peak of device memory, equal bits
  policies  steps under a plan beside the same under the heuristic (the emulated device's only)
  fetches   the engine's way back beside pinned copies, for tensors of several sizes
  copies    the engine's copies beside pinned copies: each way, and both at once
  drive     the engine's writes and reads of the drive beside the bare drive's
  largest   the largest batch in a fixed amount of memory, plain and with Terrace
  heap      allocations beside PyTorch's caching allocator

    terrace bench gpu --json gpu.json
    terrace bench gpu --gpu emulated:8G,h2d=2G,d2h=2G --only steps --contenders plain terrace
    terrace bench gpu --lag 50ms --only steps            behind the host, as a GPU is: peaks, and what was handed back
    terrace bench gpu --quick                            that all of it works (a minute)

The file of --json is written anew after each contender and each section, with "incomplete" until all of them are in it, so
that what ends early leaves what it had measured.

Ends with 1 where bits differ or something failed that should not, else 0; a missed target is a finding.
"""
import json
import os
import shlex
import shutil
import signal
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))  # machine.py, sizes.py

import torch

import copies
import findings
import heap
import machine
import networks
import targets
from children import ChildFailed
from largest import Largest
from place import DEFAULT_EMULATED, parse_place
from policies import Policies
from settings import parse_arguments
from steps import Steps, note

LIBRARY = "libterrace_gpu.so"


def default_place():
    return parse_place("cuda" if torch.cuda.is_available() else DEFAULT_EMULATED)


def find_terrace():
    """The command that runs this (TERRACE_COMMAND), or the release build's, or None."""
    for path in filter(None, (os.environ.get("TERRACE_COMMAND"), HERE.parents[2] / "build/release/bin/terrace")):
        if Path(path).is_file():
            return Path(path).resolve()
    return None


def find_library(terrace):
    """libterrace_gpu.so in the lib folders beside bin/, or None."""
    folders = ("lib", "lib/terrace", "lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu/terrace")
    found = [file for folder in folders for file in sorted((terrace.parents[1] / folder).glob(LIBRARY + "*"))]
    return found[0] if found else None


def find_package():
    """The folder that holds the package `terrace`: in the source tree, or installed beside bench/."""
    places = (HERE.parents[2] / "liballoc/python", HERE.parents[1] / "python")
    return next((place for place in places if (place / "terrace").is_dir()), None)


def environment_of(library, package):
    """For the children: where Terrace's package and library lie, and nothing of Terrace's from outside."""
    paths = [str(package)] if package else []
    paths += filter(None, [os.environ.get("PYTHONPATH")])
    found = {"PYTHONPATH": os.pathsep.join(paths)} if paths else {}
    return found | ({"TERRACE_GPU_LIBRARY": str(library)} if library else {})


def measure(arguments, scratch, tell):
    """The sections by name. `tell` is given those that there are, whenever something was added."""
    done = {}

    def tell_of(name):
        return lambda section: tell(done | {name: section})

    terrace = find_terrace()
    library = find_library(terrace) if terrace else None
    environment = environment_of(library, find_package())
    sections = {
        "steps": lambda: Steps(arguments, scratch, environment, tell_of("steps")).run(),
        "policies": lambda: Policies(arguments, scratch, environment, tell_of("policies")).run(),
        "fetches": lambda: copies.fetches(arguments, environment, tell_of("fetches")),
        "copies": lambda: copies.copies(arguments, environment),
        "drive": lambda: copies.drive(arguments, environment),
        "largest": lambda: Largest(arguments, scratch, environment, terrace).run(),
        "heap": lambda: heap.heap(arguments, scratch, environment, terrace, library),
    }
    for name in sections:
        if name in arguments.only:
            done[name] = attempt(name, sections[name])
            tell(done)
    return done


def attempt(name, section):
    note(f"{name} …")
    try:
        return section()
    except (ChildFailed, OSError) as error:
        return {"failure": str(error)}


def head_of(arguments):
    return {"format": "terrace-bench-gpu", "version": 1, "device": device_facts(arguments.gpu)}


def write(document, file):
    """As a whole, or what was there before stays."""
    partial = file.with_name(file.name + ".partial")
    partial.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    partial.replace(file)


def document_of(arguments, sections):
    document = head_of(arguments) | sections
    facts = machine.describe(arguments.pool)
    facts.get("disk", {}).pop("directory", None)  # of one machine only
    commit = os.environ.get("TERRACE_COMMIT") or machine.commit(HERE)
    return document | {"targets": targets.judge(document), "context": list(targets.CONTEXT), "machine": facts,
                       "threads": arguments.threads, "torch": torch.__version__, "command": command_line()} | (
                           {"commit": commit} if commit else {})


def device_facts(place):
    if not place.is_cuda:
        return {"kind": "emulated", "name": "the emulated device", "spec": place.spec, "note": place.note}
    facts = torch.cuda.get_device_properties(place.index)
    return {"kind": "cuda", "name": facts.name, "spec": place.spec, "memory_bytes": facts.total_memory,
            "multiprocessors": facts.multi_processor_count, "cuda": torch.version.cuda}


def command_line():
    """Without --json and --pool: those name places of one machine."""
    words, kept = iter(sys.argv[1:]), []
    for word in words:
        if word in ("--json", "--pool"):
            next(words, None)
        elif not word.startswith(("--json=", "--pool=")):
            kept.append(word)
    return shlex.join(["terrace", "bench", "gpu", *kept])


def ended_well(document):
    """Bits that differ and sections that broke; a contender that ran out of memory has only lost."""
    entries = [*document.get("steps", {}).get("entries", []), *document.get("policies", {}).get("entries", [])]
    broken = [entry for entry in entries if entry.get("bit_identical") is False or (
        "failure" in entry and not entry.get("out_of_memory"))]
    return not broken and not any("failure" in section for section in document.values() if isinstance(section, dict))


def check(arguments):
    if arguments.gpu.is_cuda and not torch.cuda.is_available():
        print(f"SKIP: --gpu {arguments.gpu.spec}: PyTorch {torch.__version__} of {sys.executable} sees no CUDA "
              f"GPU; leave out --gpu for {DEFAULT_EMULATED}, or name in TERRACE_PYTHON a Python whose PyTorch does")
        sys.exit(77)
    reason = networks.reason_not_to_run(arguments.network["kind"])
    if reason:
        sys.exit(f"bench gpu: {reason}")


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the children end
    arguments = parse_arguments(__doc__, default_place())
    check(arguments)
    scratch = Path(tempfile.mkdtemp(prefix="terrace-bench-gpu-"))
    try:
        head = head_of(arguments) | {"incomplete": True}
        document = document_of(arguments, measure(
            arguments, scratch, lambda sections: arguments.json and write(head | sections, arguments.json)))
    except ValueError as error:
        sys.exit(f"bench gpu: {error}")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(findings.text(document))
    if arguments.json:
        write(document, arguments.json)
    return 0 if ended_well(document) else 1


if __name__ == "__main__":
    sys.exit(main())
