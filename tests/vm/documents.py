"""Every command of README.md and docs/install.md works from the packages alone, or needs the sources and is named as such."""
import os
import shutil
import subprocess
from pathlib import Path

from commands import INSTALL, README, SOURCES, differences
from machine import MEDIA, NVME, PMEM, Skipped, answer, attempt, check, mounted, user, wait_for

FOLDER = Path("/root/readme")  # /run takes no programs
ENVIRONMENT = {**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}


def case_lists():
    """The documents have the commands that are tried here, and no others."""
    texts = [(MEDIA / "documents" / name).read_text(encoding="utf-8") for name in ("README.md", "install.md")]
    found = list(differences(*texts))
    check(not found, "\n".join(found))


def prepare():
    """What the commands name: a user, two places, packages, programs."""
    if attempt("python3", "-c", "import torch", seconds=300).returncode != 0:
        raise Skipped("the machine has no python3-torch")
    user("alice")
    mounted(NVME, "/nvme")
    mounted(PMEM, "/mnt/pmem", "-o", "dax")
    shutil.rmtree(FOLDER, ignore_errors=True)
    (FOLDER / "build").mkdir(parents=True)
    (FOLDER / "build/packages").symlink_to(MEDIA / "packages")
    for name in ("train.py", "t.py"):
        shutil.copy(MEDIA / "tests/train.py", FOLDER / name)
    (FOLDER / "job").write_text("#!/bin/sh\nexec python3 train.py\n", encoding="utf-8")
    (FOLDER / "job").chmod(0o755)


def try_all(commands):
    """Runs each in the folder and fails with all that failed; how many there were."""
    failed, tried = [], [how or command for command, how in commands.items() if how != SOURCES]
    for text in tried:
        done = subprocess.run(["sh", "-c", text], cwd=FOLDER, env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, check=False, timeout=300)
        if done.returncode != 0:
            failed.append(f"{text}: {done.returncode}: {(done.stdout + done.stderr)[-1500:]}")
    check(not failed, "\n".join(failed))
    return f"{len(tried)} commands"


def is_of_train(command):
    """Whether it is about the job `train` that runs."""
    return "train" in command.split() or command == "terrace top"


def case_readme():
    """README's commands, but those about a job that runs."""
    prepare()
    return try_all({command: how for command, how in README.items() if not is_of_train(command)})


def case_readme_train():
    """README's commands about the job `train` while it runs."""
    prepare()
    with open(FOLDER / "said", "w", encoding="utf-8") as said:
        train = subprocess.Popen(["terrace", "run", "--name", "train", "--dram", "96M", "--", "python3", "train.py", "0"],
                                 cwd=FOLDER, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    try:
        wait_for(lambda: any(row.get("evictions", 0) > 0 for row in answer("jobs")["jobs"]), "train to page", 120)
        tried = try_all({command: how for command, how in README.items() if is_of_train(command)})
        check(train.poll() is None, f"train has ended: {(FOLDER / 'said').read_text(encoding='utf-8')}")
    finally:
        train.kill()
        train.wait()
    return tried


def case_install():
    """The commands of docs/install.md."""
    prepare()
    return try_all(INSTALL)
