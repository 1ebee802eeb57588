#!/usr/bin/python3
"""Runs the tests of this folder in the virtual machine, as tools/vm boots it.

    run.py           those that /media/vm/only names, else all; the installation comes first in any case
    run.py --list    the tests and their cases, one a line
    run.py --names   the tests' names

A test is a module, and each of its functions `case_…` one case of it, in their order in the file. One line tells of each
case: PASS, FAIL or SKIP, the time that it took, and why. After each the service is as it was installed.
"""
import ast
import importlib
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
TESTS = ("install", "service", "activation", "watchdog", "kills", "upgrade", "reload", "disks", "users", "cgroups", "nvm",
         "alone", "documents", "purge")
CASE_SECONDS = 300


def functions(name):
    """The cases of a test with the first line that each says of itself."""
    tree = ast.parse((HERE / f"{name}.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("case_"):
            yield node.name.removeprefix("case_"), (ast.get_docstring(node) or "").partition("\n")[0]


def list_tests():
    for name in TESTS:
        tree = ast.parse((HERE / f"{name}.py").read_text(encoding="utf-8"))
        print(f"{name}: {(ast.get_docstring(tree) or '').partition(chr(10))[0]}")
        for case, about in functions(name):
            print(f"  {name}/{case}: {about}")


def chosen():
    """Pairs of test and case, the installation first."""
    file = Path("/media/vm/only")
    only = file.read_text(encoding="utf-8").split()
    pairs = [(name, case) for name in TESTS for case, _ in functions(name)]
    if not only:
        return pairs
    return [(name, case) for name, case in pairs if name == TESTS[0] or name in only or f"{name}/{case}" in only]


class TookTooLong(Exception):
    pass


def too_long(_number, _frame):
    raise TookTooLong(f"was not done in {CASE_SECONDS} s")


def indented(text, lines=40):
    return "".join(f"    {line}\n" for line in text.strip().splitlines()[-lines:])


def outcome_of(name, case):
    """PASS, SKIP or FAIL, and what there is to say of it: a case may return what it has measured."""
    machine = importlib.import_module("machine")
    signal.alarm(CASE_SECONDS)
    try:
        noted = getattr(importlib.import_module(name), f"case_{case}")()
        return "PASS", noted or ""
    except machine.Skipped as why:
        return "SKIP", str(why)
    except machine.Failed as why:
        return "FAIL", str(why)
    except Exception:  # a fault of the test counts as one
        return "FAIL", traceback.format_exc()
    finally:
        signal.alarm(0)


def journal_since(start):
    words = ["journalctl", "--no-pager", "--output", "short-monotonic", "--since", f"@{int(start)}"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout


def run_case(name, case):
    start = time.time()
    outcome, why = outcome_of(name, case)
    first, _, rest = why.partition("\n")
    print(f"{outcome} {name}/{case} ({time.time() - start:.1f} s){': ' + first if first else ''}", flush=True)
    if outcome == "FAIL":
        print(indented(rest) + "  the journal:\n" + indented(journal_since(start)), end="", flush=True)
    return outcome


def reset():
    try:
        importlib.import_module("machine").as_installed()
    except Exception as why:
        print(f"  afterwards: {why}", flush=True)


def main():
    Path("/run/vm").mkdir(mode=0o1777, exist_ok=True)
    Path("/run/vm").chmod(0o1777)
    signal.signal(signal.SIGALRM, too_long)
    outcomes = []
    for name, case in chosen():
        outcomes.append(run_case(name, case))
        if name == TESTS[0] and outcomes[-1] == "FAIL":
            break
        reset()
    print(f"{outcomes.count('PASS')} passed, {outcomes.count('SKIP')} skipped, {outcomes.count('FAIL')} failed", flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        list_tests()
    elif sys.argv[1:] == ["--names"]:
        print("\n".join(TESTS))
    else:
        main()
