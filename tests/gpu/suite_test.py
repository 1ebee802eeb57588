#!/usr/bin/env python3
"""What a machine without a GPU can tell of the suite for one: each command of PENDING.md starts, and `run` takes no
skipped or empty-handed step for a good one.

    suite_test.py BUILD [unittest's arguments]
"""
import os
import re
import shlex
import shutil
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

    def run_compression(self, *options):
        ran = subprocess.run([HERE / "run", *options, self.results, self.build, "compression"], capture_output=True, text=True,
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
                         ["compression.json", "summary.txt", "texts-compression.tar.gz"])
        with tarfile.open(self.results / "texts-compression.tar.gz") as archive:
            self.assertEqual(archive.extractfile("texts/device_test.txt").read(), b"good\n")

    def test_what_decides_most_comes_first_and_each_step_is_told_as_it_ends(self):
        self.program("terrace-bench-gpu-compression", 'echo "{}" > "${@: -1}"')
        self.program("gpu_device_test", f'cat "{self.results}/summary.txt"')
        self.run_compression()
        with tarfile.open(self.results / "texts-compression.tar.gz") as archive:
            self.assertIn(b"ok       bench", archive.extractfile("texts/device_test.txt").read())

    def test_the_commit_is_an_argument(self):
        self.program("terrace-bench-gpu-compression", 'echo "$@"; echo "{}" > "${@: -1}"')
        self.run_compression("--commit", "0123abc")
        with tarfile.open(self.results / "texts-compression.tar.gz") as archive:
            self.assertIn(b"--commit 0123abc", archive.extractfile("texts/bench.txt").read())

    def test_it_ends_in_time(self):
        self.program("gpu_device_test", "sleep 100")
        self.program("terrace-bench-gpu-compression", "sleep 100")
        code, said = self.run_compression("--seconds", "11")
        self.assertRegex(said, "FAILED   bench: not done after 1[01] s")
        self.assertIn("no time  device_test", said)
        self.assertNotIn(code, (0, 77))

    def test_a_library_that_is_missing_is_named_first(self):
        (self.build / "lib").mkdir()
        compiler = shutil.which("cc")
        if compiler is None:
            self.skipTest("no C compiler")
        for name, needs in (("libneeded.so", []), ("libterrace_gpu.so", ["-L.", "-lneeded"])):
            subprocess.run([compiler, "-shared", "-o", name, "-x", "c", "/dev/null", "-Wl,--no-as-needed", *needs],
                           cwd=self.build / "lib", check=True)
        (self.build / "lib/libneeded.so").unlink()
        code, said = self.run_compression()
        self.assertIn("FAILED   libraries: libterrace_gpu.so lacks libneeded.so", said)
        self.assertLess(said.index("libraries"), said.index("bench"))
        self.assertNotIn(code, (0, 77))

    def test_an_option_that_is_not_known_is_refused(self):
        self.assertEqual(self.run_compression("--seconds", "soon")[0], 2)
        self.assertEqual(self.run_compression("--fast")[0], 2)

    def test_a_program_that_is_not_built_has_failed(self):
        code, said = self.run_compression()
        self.assertIn("FAILED   device_test:", said)
        self.assertNotIn(code, (0, 77))


if __name__ == "__main__":
    unittest.main()
