#!/usr/bin/env python3
"""What a machine without a GPU can tell of the suite for one: each command of PENDING.md starts, and `run` takes no
skipped or empty-handed step for a good one.

    suite_test.py BUILD [unittest's arguments]
"""
import os
import re
import shlex
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
BUILD = Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else SOURCE / "build/release"
STARTS = ("tests/", "build/", "TERRACE_", "terrace bench", "terrace run", "terrace doctor", "terrace-bench")


def rows():
    """A claim and what would verify it."""
    for line in (HERE / "PENDING.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and len(cells) == 2 and cells[0] not in ("claim", "---"):
            yield cells


def commands(cell):
    return [shlex.split(text) for text in re.findall(r"`([^`]*)`", cell) if text.startswith(STARTS)]


def without_variables(words):
    return words[next(i for i, word in enumerate(words) if not re.match(r"[A-Z_]+=", word)):]


def file_of(program):
    return BUILD / program.removeprefix("build/release/") if program.startswith("build/") else SOURCE / program


def cases_of(folder):
    sources = "".join(file.read_text(encoding="utf-8") for file in (SOURCE / folder).glob("*.cpp"))
    return re.findall(r'TEST_CASE\(\s*"([^"]*)"', sources)


def tests_of(file):
    text = (SOURCE / file).read_text(encoding="utf-8")
    classes = re.split(r"^class (\w+)", text, flags=re.MULTILINE)[1:]
    return set(classes[::2]) | {f"{name}.{test}" for name, body in zip(classes[::2], classes[1::2])
                                for test in re.findall(r"def (test_\w+)", body)}


class Pending(unittest.TestCase):
    def test_every_claim_has_a_command(self):
        self.assertGreater(len(list(rows())), 30)
        for claim, cell in rows():
            with self.subTest(claim):
                self.assertTrue(commands(cell) or cell.startswith("the same"))

    def test_every_command_starts_in_the_repository(self):
        for claim, cell in rows():
            for words in map(without_variables, commands(cell)):
                with self.subTest(claim, program=words[0]):
                    self.assertTrue(os.access(file_of(words[0]), os.X_OK))

    def test_every_test_that_is_named_exists(self):
        for claim, cell in rows():
            for program, *arguments in map(without_variables, commands(cell)):
                with self.subTest(claim, program=program):
                    if program.endswith("offload_test.py"):
                        self.assertLessEqual(set(arguments), tests_of(program))
                    self.require_cases(program, arguments)

    def test_every_test_that_the_sanitizers_run_exists(self):
        self.require_cases("gpu_device_test",
                           re.findall(r"(?:small|meeting)='([^']*)'", (HERE / "run").read_text(encoding="utf-8")))

    def require_cases(self, program, arguments):
        folder = {"gpu_device_test": "tests/gpu", "gpu_heap_test": "tests/liballoc/gpu/heap"}.get(Path(program).name)
        for name in (name for names in arguments if folder for name in names.split(",")):
            found = [case for case in cases_of(folder) if case == name or case.startswith(name.rstrip("*"))]
            self.assertTrue(found if name.endswith("*") else name in found, name)


class Run(unittest.TestCase):
    """`run compression` on a build of scripts."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build, self.results = Path(folder.name, "build"), Path(folder.name, "results")
        (self.build / "bin").mkdir(parents=True)

    def program(self, name, *lines):
        file = self.build / "bin" / name
        file.write_text("\n".join(("#!/bin/bash", *lines, "")), encoding="utf-8")
        file.chmod(0o755)

    def run_compression(self):
        ran = subprocess.run([HERE / "run", self.results, self.build, "compression"], capture_output=True, text=True,
                             check=False)
        return ran.returncode, ran.stdout

    def test_a_step_that_is_skipped_is_no_success(self):
        self.program("gpu_device_test", "echo SKIP: no GPU", "exit 77")
        self.program("terrace-bench-gpu-compression", "echo SKIP: no GPU", "exit 77")
        code, said = self.run_compression()
        self.assertEqual(code, 77)
        self.assertIn("SKIP     bench: no GPU", said)
        self.assertNotIn("ok       bench", said)

    def test_a_benchmark_that_writes_no_figures_has_failed(self):
        self.program("gpu_device_test")
        self.program("terrace-bench-gpu-compression")
        code, said = self.run_compression()
        self.assertIn("FAILED   bench: ended well, but without", said)
        self.assertNotIn(code, (0, 77))

    def test_a_case_that_is_skipped_is_named(self):
        self.program("gpu_device_test", "echo SKIP: too little memory")
        self.program("terrace-bench-gpu-compression", 'echo "{}" > "${@: -1}"')
        code, said = self.run_compression()
        self.assertIn("ok       bench", said)
        self.assertIn("SKIP     a case of device_test: too little memory", said)
        self.assertNotEqual(code, 0)

    def test_few_files_come_back(self):
        self.program("gpu_device_test", "echo good")
        self.program("terrace-bench-gpu-compression", 'echo "{}" > "${@: -1}"')
        self.run_compression()
        self.assertEqual(sorted(file.name for file in self.results.iterdir()),
                         ["compression.json", "texts-compression.tar.gz"])
        with tarfile.open(self.results / "texts-compression.tar.gz") as archive:
            self.assertEqual(archive.extractfile("texts/device_test.txt").read(), b"good\n")

    def test_a_program_that_is_not_built_has_failed(self):
        code, said = self.run_compression()
        self.assertIn("FAILED   device_test:", said)
        self.assertNotIn(code, (0, 77))


if __name__ == "__main__":
    unittest.main()
