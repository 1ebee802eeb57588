#!/usr/bin/python3
"""What the shared libraries show to programs: the functions of their headers with the version of the release that brought
them, the names that a preload stands in front of without one, and nothing else.

    symbol_versions_test.py NM SOURCE LIBRARY HEADER[,HEADER…] VERSION [INTERPOSED…]

The names in front of others' are given one by one: a new one is looked at by a person. Nothing may have a version there,
since a program asks for its C library's.
"""
import re
import subprocess
import sys

DECLARED = re.compile(r"^TERRACE\w*_API[^;()]*?\b(terrace_\w+)\(", re.MULTILINE)


def exported(nm, library):
    """{name: version, or "" without one}, of functions and data, not of the versions' own names."""
    listing = subprocess.run([nm, "-D", "--defined-only", "--with-symbol-versions", library], check=True, capture_output=True,
                             text=True).stdout
    symbols = {}
    for line in listing.splitlines():
        kind, symbol = line.split()[-2:]
        name, _, version = symbol.partition("@")
        if kind != "A":
            symbols[name] = version.lstrip("@")
    return symbols


def declared(source, headers):
    names = set()
    for header in headers:
        with open(f"{source}/liballoc/{header}", encoding="utf-8") as file:
            found = set(DECLARED.findall(file.read()))
        assert found, f"no function found in {header}"
        names |= found
    return names


def main():
    nm, source, library, headers, version, *interposed = sys.argv[1:]
    want = dict.fromkeys(declared(source, headers.split(",")), version) | dict.fromkeys(interposed, "")
    have = exported(nm, library)
    wrong = [f"{name}: '{have.get(name, 'not exported')}' instead of '{want.get(name, 'not exported')}'"
             for name in sorted(want.keys() | have.keys()) if want.get(name) != have.get(name)]
    if wrong:
        sys.exit(f"{library}: symbols and their versions\n  " + "\n  ".join(wrong))
    print(f"{library}: {len(want) - len(interposed)} functions of {version}, {len(interposed)} names without a version")


if __name__ == "__main__":
    main()
