#!/usr/bin/python3
"""A job whose pool lies in two directories: its data is right, and each directory's file received about half of it.

    striped.py preload    started by hand, with TERRACE_POOL_DIR=A,B
    striped.py run        terrace run --pool A,B, whose private daemon grants no pool then
    striped.py fault      writing fails from the third write on: what is said names the directory

The job keeps three times its budget in random blocks, which it reads again: itself, in a forked child, and after it
has closed every descriptor that it can. The files have no names; the job opens its own by /proc and counts the pages
in them that are not zero.
"""
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

MIB = 2**20
BLOCKS, BLOCK_BYTES, BUDGET = 24, 16 * MIB, 128 * MIB
PAGE = 4096


# ---- the job ------------------------------------------------------------------------------------------------

def descriptors():
    found = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            found[int(number)] = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            pass  # that of the listing itself
    return found


def of_the_library():
    kinds = ("anon_inode:[io_uring]", "anon_inode:[eventpoll]", "anon_inode:[userfaultfd]")
    return sorted(link for link in descriptors().values() if link in kinds or link.endswith("(deleted)"))


def written_bytes(directory):
    """Of all files in `directory`: pages that are not zero."""
    pages, zero = 0, bytes(PAGE)
    for number, link in descriptors().items():
        if not link.startswith(f"{directory}/"):
            continue
        with open(f"/proc/self/fd/{number}", "rb", buffering=0) as file:
            while chunk := file.read(MIB):
                pages += sum(chunk[at:at + PAGE] != zero for at in range(0, len(chunk), PAGE))
    return pages * PAGE


def are_right(blocks, digests):
    return [hashlib.sha256(block).digest() for block in blocks] == digests


def is_right_in_a_child(blocks, digests):
    child = os.fork()
    if child == 0:
        os._exit(0 if are_right(blocks, digests) else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def job(directories):
    blocks, digests = [], []
    for _ in range(BLOCKS):
        blocks.append(os.urandom(BLOCK_BYTES))
        digests.append(hashlib.sha256(blocks[-1]).digest())
    result = {"right": are_right(blocks, digests), "right_in_a_child": is_right_in_a_child(blocks, digests)}
    before = of_the_library()
    os.closerange(3, 2**16)
    result["kept_descriptors"] = of_the_library() == before
    result["right_after_closing"] = are_right(blocks, digests)
    result["written"] = [written_bytes(directory) for directory in directories]
    print(json.dumps(result))


# ---- the test -----------------------------------------------------------------------------------------------

def run(how, directories):
    pools = ",".join(map(str, directories))
    settings = {"TERRACE_POOL_SIZE": "1G", "TERRACE_COMPRESS": "off"}
    launcher = []
    if how == "run":
        launcher = [os.environ["TERRACE_BIN"], "run", "--dram", str(BUDGET), "--pool", pools, "--"]
    else:
        settings |= {"LD_PRELOAD": os.environ["TERRACE_PRELOAD"], "TERRACE_DRAM": str(BUDGET), "TERRACE_POOL_DIR": pools}
    if how == "fault":
        settings["TERRACE_FAULT"] = "write:3:EIO"
    command = [*launcher, sys.executable, __file__, "--job", *map(str, directories)]
    return subprocess.run(command, env=os.environ | settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False)


def failures_of_content(result):
    return [f"not so: {name}" for name in ("right", "right_in_a_child", "kept_descriptors", "right_after_closing")
            if not result[name]]


def failures_of_halves(written):
    total = sum(written)
    if total < 2 * BUDGET:
        yield f"only {total} bytes were written to the pool: {written}"
    yield from (f"{part} of {total} bytes are not about half: {written}" for part in written
                if not 0.4 * total < part < 0.6 * total)


def failures_of_message(errors, directories):
    lines = [line for line in errors.splitlines() if "writing to the pool in" in line]
    if not any(f"writing to the pool in {directory} failed" in line for line in lines for directory in directories):
        yield f"no line names the directory where writing failed: {errors}"


def failures(how, directories):
    done = run(how, directories)
    if done.returncode != 0:
        return [f"the job ended with {done.returncode}: {done.stderr}"]
    result = json.loads(done.stdout)
    print(done.stdout, done.stderr, sep="")
    found = failures_of_content(result)
    if how == "fault":
        return [*found, *failures_of_message(done.stderr, directories)]
    if done.stderr.count("on the same file system") != 1:
        found.append(f"not one line says that both directories are on one file system: {done.stderr}")
    return [*found, *failures_of_halves(result["written"])]


def main():
    if sys.argv[1] == "--job":
        return job(sys.argv[2:])
    if sys.argv[1] == "run" and Path("/run/terrace/terraced.sock").exists():
        print("SKIP: this machine has a system daemon")
        return 77
    with tempfile.TemporaryDirectory(prefix="terrace-e2e.", dir=os.environ.get("TMPDIR", "/var/tmp")) as root:
        directories = [Path(root, name) for name in ("one", "other")]
        for directory in directories:
            directory.mkdir()
        found = failures(sys.argv[1], directories)
    for failure in found:
        print(f"FAILED: {failure}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
