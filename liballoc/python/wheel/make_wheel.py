#!/usr/bin/python3
"""Makes a wheel of the Python package and the libraries that a build made: what `pip install FILE.whl` needs, and no network.

    make_wheel.py --version 0.1.0 --library build/release/lib/libterrace_gpu.so --out DIRECTORY

The format is that of the binary distribution specification (packaging.python.org, PEP 427, PEP 376 for RECORD, core metadata
2.1), written with the standard library alone. The libraries lie in terrace/lib, where terrace/library.py looks first. The tag says
Linux of this processor and no version of glibc: the library is built for this system's. The same input gives the same bytes.
Prints the file's name.
"""
import argparse
import base64
import hashlib
import platform
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGE, ROOT = HERE.parent / "terrace", HERE.parents[2]
SUFFIXES = {".py", ".typed"}
LEAST_PYTHON = "3.10"  # of terrace_saves.abi3.so

METADATA = """Metadata-Version: 2.1
Name: terrace
Version: {version}
Summary: More memory for a training job than its GPU has: saved tensors and optimizer states in host memory and on NVMe
License: Apache-2.0
License-File: LICENSE
Classifier: Typing :: Typed
Classifier: Operating System :: POSIX :: Linux
Requires-Python: >={python}
Provides-Extra: torch
Requires-Dist: torch >=1.13 ; extra == 'torch'
Description-Content-Type: text/markdown

"""


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--version", required=True)
    parser.add_argument("--library", required=True, type=Path, help="libterrace_gpu.so; terrace_saves.abi3.so is taken from beside it")
    parser.add_argument("--out", required=True, type=Path, help="directory, made where it is missing")
    arguments = parser.parse_args()
    if not arguments.library.is_file():
        parser.error(f"--library {arguments.library} is no file; build the target terrace_gpu first")
    return arguments


def contents(library, version, tag):
    """(name in the wheel, bytes), all but RECORD, which comes last of a wheel."""
    for file in sorted(PACKAGE.rglob("*")):
        if file.suffix in SUFFIXES:
            yield f"terrace/{file.relative_to(PACKAGE).as_posix()}", file.read_bytes()
    for file in (library, library.parent / "terrace_saves.abi3.so"):
        if file.is_file():
            yield f"terrace/lib/{file.name}", file.read_bytes()
    folder = f"terrace-{version}.dist-info"
    guide = (ROOT / "docs/offload.md").read_text(encoding="utf-8")
    yield f"{folder}/LICENSE", (ROOT / "LICENSE").read_bytes()
    yield f"{folder}/METADATA", (METADATA.format(version=version, python=LEAST_PYTHON) + guide).encode()
    yield f"{folder}/WHEEL", f"Wheel-Version: 1.0\nGenerator: terrace\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()


def record_line(name, content):
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"


def write(wheel, name, content):
    entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (0o755 if name.endswith(".so") else 0o644) << 16
    wheel.writestr(entry, content)


def main():
    arguments = parse_arguments()
    tag = f"py3-none-linux_{platform.machine()}"
    arguments.out.mkdir(parents=True, exist_ok=True)
    file = arguments.out / f"terrace-{arguments.version}-{tag}.whl"
    record, record_name = "", f"terrace-{arguments.version}.dist-info/RECORD"
    with zipfile.ZipFile(file, "w") as wheel:
        for name, content in contents(arguments.library, arguments.version, tag):
            write(wheel, name, content)
            record += record_line(name, content)
        write(wheel, record_name, f"{record}{record_name},,\n".encode())
    print(file)


if __name__ == "__main__":
    sys.exit(main())
