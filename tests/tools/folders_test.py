"""Folders have few files. And includes between folders run one way within each of the parts that PARTS names.

    python3 folders_test.py SOURCES        (SOURCES: the root of the source tree)

A folder that includes a header of another one, which includes one of its own through however many others, is a circle:
neither can be read, tested or moved alone. docs/architecture.md lists the folders in an order without circles.
"""

import collections
import pathlib
import re
import sys

MOST_FILES = 25
PARTS = ("compression", "daemon", "tiers", "tools/cli", "liballoc/agent", "liballoc/gpu/offload", "liballoc/gpu/optimizer",
         "liballoc/heap", "liballoc/lifetimes")  # whose folders are in an order
ROOMY = ("compression", "daemon", "liballoc", "tests", "tiers", "tools")
FRAMES = "tests/compression/golden"  # a file for each case


def included_folders(root, part):
    """Of each folder of a part, the others that its files include."""
    arrows = collections.defaultdict(set)
    for file in (root / part).rglob("*"):
        if file.suffix not in (".h", ".cpp", ".cuh", ".cu"):
            continue
        folder = file.parent.relative_to(root).as_posix()
        for header in re.findall(rf'#include "({part}/[^"]+)"', file.read_text(encoding="utf-8")):
            other = str(pathlib.PurePosixPath(header).parent)
            if other != folder:
                arrows[folder].add(other)
    return arrows


def circle_from(folder, arrows):
    """The shortest way from a folder back to it; empty: there is none."""
    ways = collections.deque([[folder]])
    seen = set()
    while ways:
        way = ways.popleft()
        for other in sorted(arrows.get(way[-1], ())):
            if other == folder:
                return way + [other]
            if other not in seen:
                seen.add(other)
                ways.append(way + [other])
    return []


def circles(arrows):
    found = {}
    for folder in sorted(arrows):
        way = circle_from(folder, arrows)
        if way:
            found.setdefault(frozenset(way), way)
    return list(found.values())


def crowded(root, part):
    folders = [root / part] + [path for path in (root / part).rglob("*") if path.is_dir() and path.name != "__pycache__"]
    counts = {folder: sum(1 for path in folder.iterdir() if path.is_file()) for folder in folders}
    return {folder.relative_to(root): count for folder, count in counts.items()
            if count > MOST_FILES and folder != root / FRAMES}


def check_the_check():
    """Both checks see what they are for."""
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}}) == [["a", "b", "c", "a"]]
    assert circles({"a": {"b", "c"}, "b": {"c"}}) == []


def main():
    root = pathlib.Path(sys.argv[1])
    check_the_check()
    wrong = []
    for part in PARTS:
        arrows = included_folders(root, part)
        assert arrows, f"{part}: no includes found; is {root} the source tree?"
        wrong += [f"circle of includes: {' -> '.join(way)}" for way in circles(arrows)]
    for part in ROOMY:
        wrong += [f"{folder}: {count} files, at most {MOST_FILES}; divide it by concern"
                  for folder, count in sorted(crowded(root, part).items())]
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
