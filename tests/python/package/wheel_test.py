#!/usr/bin/python3
"""The wheel: installed by pip into a virtual environment it works from there alone, and says its types."""
import base64
import hashlib
import importlib.util
import inspect
import os
import shutil
import subprocess
import sys
import tempfile
import typing
import unittest
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # support.py
from support import SOURCE, engine_or_skip, main, skip

import terrace.torch
from terrace import library

MAKE = SOURCE / "liballoc/python/wheel/make_wheel.py"

PROGRAM = """
import importlib.metadata, sys
from pathlib import Path
import torch
import terrace.torch
from terrace import library
prefix = Path(sys.prefix)
for file in (terrace.__file__, library.load().file, library.native().__spec__.origin if library.native() else sys.prefix):
    assert Path(file).is_relative_to(prefix), file
assert (Path(terrace.__file__).parent / "py.typed").is_file()
assert importlib.metadata.version("terrace") == "1.2.3"
with terrace.torch.offload(budget="64M", device="cpu", min_bytes=1, limit=None, keep_last=0) as session:
    torch.ones(4096, requires_grad=True).exp().sum().backward()
assert session.statistics()["fetched"] == 1, session.statistics()
parameter = torch.nn.Parameter(torch.ones(64))
optimizer = terrace.torch.AdamW([parameter])
parameter.grad = torch.ones(64)
optimizer.step()
assert not torch.equal(parameter, torch.ones(64))
"""


def skip_part(reason):
    print(f"SKIP: {reason}")


def make(out):
    done = subprocess.run([sys.executable, MAKE, "--version", "1.2.3", "--library", library.load().file, "--out", out],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


class Wheel(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="terrace-wheel.", dir="/var/tmp")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_there(self, *command):
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("TERRACE_", "PYTHON", "PIP_", "LD_"))}
        done = subprocess.run([self.folder / "venv/bin/python", *command], capture_output=True, text=True, check=False, env=clean,
                              cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_ItIsInstalledAndWorksFromThereAlone(self):
        for module in ("venv", "ensurepip"):
            if importlib.util.find_spec(module) is None:
                skip(f"{sys.executable} has no {module} (Debian: python3-venv)")
        wheel = make(self.folder)
        made = subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", self.folder / "venv"], capture_output=True,
                              text=True, check=False)
        if made.returncode != 0:
            skip(f"no virtual environment can be made here: {made.stdout.strip()[:200]}")
        self.run_there("-m", "pip", "install", "--no-index", "--no-deps", "--disable-pip-version-check", wheel)
        self.run_there("-c", PROGRAM)
        self.check_types()
        self.run_there("-m", "pip", "uninstall", "--yes", "--disable-pip-version-check", "terrace")
        self.assertEqual(list((self.folder / "venv").rglob("*terrace*")), [])

    def check_types(self):
        """A type checker that reads the installed package finds the one wrong line of a program."""
        if shutil.which("mypy") is None:
            return skip_part("there is no mypy to read the types with")
        program = self.folder / "program.py"
        program.write_text("import terrace.torch\nimport torch\n"
                           "offload = terrace.torch.offload(budget='8GiB', only='checkpoints')\n"
                           "size: dict[str, int] = offload.metrics()\n"
                           "terrace.torch.mark_keep(torch.zeros(1))\n"
                           "terrace.torch.offload(only=1)\n", encoding="utf-8")
        settings = self.folder / "mypy.ini"  # PyTorch's own types take mypy a minute
        settings.write_text("[mypy]\n[mypy-torch.*]\nfollow_imports = skip\nfollow_imports_for_stubs = True\n", encoding="utf-8")
        done = subprocess.run(["mypy", "--config-file", settings, "--python-executable", self.folder / "venv/bin/python",
                               "--cache-dir", self.folder / "cache", program], capture_output=True, text=True, check=False, cwd=self.folder)
        found = [line for line in done.stdout.splitlines() if ": error:" in line]
        self.assertEqual(len(found), 1, done.stdout + done.stderr)
        self.assertIn("program.py:6: error: Argument \"only\" to \"offload\" has incompatible type \"int\"", found[0])

    def test_ItsRecordIsOfWhatItHas(self):
        with zipfile.ZipFile(make(self.folder)) as wheel:
            names = wheel.namelist()
            rows = [line.rsplit(",", 2) for line in wheel.read("terrace-1.2.3.dist-info/RECORD").decode().splitlines()]
            self.assertEqual([name for name, _, _ in rows], names)
            for name, digest, size in rows[:-1]:
                content = wheel.read(name)
                ours = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
                self.assertEqual([f"sha256={ours}", str(len(content))], [digest, size], name)
        self.assertEqual(rows[-1][1:], ["", ""])
        self.assertIn("terrace/py.typed", names)
        self.assertIn("terrace/torch/optim/adam.py", names)
        self.assertFalse([name for name in names if "__pycache__" in name or name.startswith("auto")])

    def test_TheSameInputGivesTheSameBytes(self):
        one, other = (make(self.folder / name).read_bytes() for name in ("one", "other"))
        self.assertEqual(one, other)

    def test_AMissingLibraryIsSaid(self):
        done = subprocess.run([sys.executable, MAKE, "--version", "1", "--library", "/nowhere.so", "--out", self.folder],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--library /nowhere.so is no file; build the target terrace_gpu first", done.stderr)


class Types(unittest.TestCase):
    def test_WhatIsPublicSaysItsTypes(self):
        for name in terrace.torch.__all__:
            public = getattr(terrace.torch, name)
            functions = {name: public}
            if inspect.isclass(public):
                if issubclass(public, Exception):
                    continue
                functions = {f"{name}.{member}": value for member, value in vars(public).items()
                             if inspect.isfunction(value) and (member == "__init__" or not member.startswith("_"))}
            for qualified, function in functions.items():
                with self.subTest(function=qualified):
                    hints = typing.get_type_hints(function)
                    wanted = [each for each in inspect.signature(function).parameters if each != "self"] + ["return"]
                    self.assertEqual([each for each in wanted if each not in hints], [])


if __name__ == "__main__":
    engine_or_skip()
    main()
