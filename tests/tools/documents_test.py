"""README and docs/: every link leads somewhere, to a heading where it names one, and README is short.

    python3 documents_test.py SOURCES        (SOURCES: the root of the source tree)
"""

import pathlib
import re
import sys
import unicodedata

MOST_LINES = 110  # of README.md
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchor_of(heading):
    """As GitHub makes it: lower case, without punctuation, spaces as hyphens."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    kept = (char for char in plain if char in " -_" or unicodedata.category(char)[0] in "LN")
    return "".join(kept).replace(" ", "-")


def anchors_of(text):
    return {anchor_of(heading) for heading in re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.MULTILINE)}


def broken_links(root, file):
    text = file.read_text(encoding="utf-8")
    for target in LINK.findall(re.sub(r"`[^`\n]*`", "", FENCE.sub("", text))):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, anchor = target.partition("#")
        place = (file.parent / path).resolve() if path else file
        if not place.exists() or root not in (place, *place.parents):
            yield f"{file.relative_to(root)}: {target}: there is no such file"
        elif anchor and anchor not in anchors_of(place.read_text(encoding="utf-8")):
            yield f"{file.relative_to(root)}: {target}: there is no such heading"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    files = [*root.glob("*.md"), *(root / "docs").rglob("*.md"), *(root / "tests").rglob("*.md")]
    found = [line for file in files for line in broken_links(root, file)]
    lines = len((root / "README.md").read_text(encoding="utf-8").splitlines())
    if lines > MOST_LINES:
        found.append(f"README.md has {lines} lines, more than {MOST_LINES}: move what is not for a first look to docs/")
    print("\n".join(found) or f"{len(files)} documents, README.md of {lines} lines")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
