"""For tools/lint: "stamp<tab>file" for each translation unit of ours that is not known to be clean.

    ninja -C BUILD -t deps | python3 tools/lint_units.py BUILD STAMPS QUICK      (QUICK: 1 or 0)

Only what the build compiles is listed: without its command line a file cannot be understood. nvcc's files are not; the
kernels' source is analysed where the emulator compiles it. A stamp's name hashes all that a finding can depend on: the
rules, the command, the file and what the build saw it include. A "q" at its end says that the analyzer does not look.
"""

import hashlib
import json
import os
import re
import subprocess
import sys


def read_includes(deps, build):
    """Of each object file, what its sources include."""
    includes = {}
    for line in deps:
        if ": #deps" in line:
            seen = includes.setdefault(line.split(":")[0], [])
        elif line.startswith("    "):
            seen.append(os.path.relpath(os.path.join(build, line.strip())))
    return includes


def list_ours():
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    return set(subprocess.check_output(listing, text=True).splitlines())


class Digests:
    """The hash of each file, once."""

    def __init__(self):
        self.known = {}

    def of(self, path):
        if path not in self.known:
            with open(path, "rb") as file:
                self.known[path] = hashlib.sha256(file.read()).digest()
        return self.known[path]


def main():
    build, stamps, quick = sys.argv[1], sys.argv[2], sys.argv[3] == "1"
    includes, ours, digests = read_includes(sys.stdin, build), list_ours(), Digests()
    with open(build + "/compile_commands.json", encoding="utf-8") as file:
        commands = json.load(file)
    listed = set()
    for entry in commands:
        path = os.path.relpath(entry["file"])
        several = "/Unity/unity_" in path  # sources compiled as one
        if path in listed or not (several or (path in ours and re.search(r"\.(c|cpp)$", path))):
            continue
        listed.add(path)
        sha = hashlib.sha256(digests.of(".clang-tidy") + entry["command"].encode() + digests.of(path))
        made = re.search(r" -o (\S+)", entry["command"])[1]
        for header in sorted(ours.intersection(includes.get(made, []))):
            sha.update(digests.of(header))
        tests = path.startswith(("tests/", build + "/tests/"))
        if tests and quick:
            continue
        without = quick or tests  # there the paths that the analyzer walks are mostly those of Catch2's macros
        stamp = f"{stamps}/{path.replace('/', '_')}.{sha.hexdigest()[:24]}"
        if not os.path.exists(stamp) and not (without and os.path.exists(stamp + "q")):
            print(f"{stamp}{'q' if without else ''}\t{path}")


if __name__ == "__main__":
    main()
