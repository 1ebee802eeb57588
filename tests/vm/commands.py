#!/usr/bin/python3
"""The commands of README.md and docs/install.md, and how each is tried in the machine (documents.py).

    commands.py README.md docs/install.md     fails when they have another list of commands than this file

The machine is small, so that a command is tried with smaller sizes, in a folder that has its train.py, t.py and job.
"""
import re
import sys
from pathlib import Path

# What is no command of the packages' own.
SOURCES = "# needs the sources, which the machine does not have"

# Each command, and the shell text that tries it: None is the command itself.
README = {
    "terrace run --dram 60% -- python3 train.py": 'test "$(terrace run --dram 5% -- python3 train.py)" = "$(python3 train.py)"',
    "terrace run --offload activations -- python3 train.py":
        'test "$(terrace run --offload activations -- python3 train.py)" = "$(python3 train.py)"',
    "./tools/demo": SOURCES,
    "./tools/check": SOURCES,
    "tools/package": SOURCES,
    "apt install ./build/packages/*.deb": "apt install --yes ./build/packages/*.deb",
    "usermod --append --groups terrace alice": "usermod --append --groups terrace alice && id -nG alice | grep -w terrace",
    "terrace doctor": None,
    "terrace run --dram 16G -- python3 train.py": "terrace run --dram 96M -- python3 train.py",
    "terrace run --limit 24G --pool /nvme -- make -j": "terrace run --limit 400M --pool /nvme -- python3 train.py",
    "terrace run --tiers nvm=64G@/mnt/pmem --dram 16G -- ./job": "terrace run --tiers nvm=64M@/mnt/pmem --dram 96M -- ./job",
    "terrace run --private --dram 16G --writes-per-day 500G -- ./job":
        "terrace run --private --dram 96M --writes-per-day 500M -- ./job",
    "terrace run --gpu emulated:8G --offload activations -- python3 t.py":
        "terrace run --gpu emulated:128M --offload activations -- python3 t.py",
    "terrace top":
        "{ sleep 4; printf q; } | script --quiet --return --command 'terrace top' screen && grep -q train screen",
    "terrace timeline train --html train.html":
        "terrace timeline train --seconds 20 --html train.html && test $(wc -c <train.html) -gt 20000",
    "terrace plan --job train --budget-curve": "terrace plan --job train --seconds 60 --budget-curve",
    "terrace set train --dram 8G": "terrace set train --dram 128M",
    "terrace pause train; terrace resume train": "terrace pause train && terrace jobs && terrace resume train",
}
INSTALL = {
    "tools/package": SOURCES,
    "apt install ./build/packages/*.deb": README["apt install ./build/packages/*.deb"],
    "usermod --append --groups terrace alice": README["usermod --append --groups terrace alice"],
    "terrace doctor": None,
    "terrace bench": "terrace bench && terrace bench malloc --help",
    "ninja -C build/release wheel": SOURCES,
    "pip install build/release/wheel/*.whl": SOURCES,
    "tools/setup && cmake --preset release && cmake --build --preset release": SOURCES,
    "cmake --install build/release --prefix /usr": SOURCES,
    "systemd-sysusers terrace.conf": None,
    "systemctl daemon-reload && systemctl enable --now terraced.socket terraced.service": None,
    "terraced --check-config": None,
    "systemctl reload terraced": None,
    "systemctl edit terraced":
        "printf '[Unit]\\nRequiresMountsFor=/nvme/terrace\\n' >unit && "
        "SYSTEMD_EDITOR='cp unit' script --quiet --return --command 'systemctl edit terraced' edited && "
        "systemctl show terraced --property=RequiresMountsFor | grep /nvme/terrace && systemctl revert terraced",
    "journalctl -u terraced -p warning": None,
    "chgrp terrace /dev/userfaultfd; chmod 660 /dev/userfaultfd":
        "chgrp terrace /dev/userfaultfd && chmod 660 /dev/userfaultfd && "
        "chgrp root /dev/userfaultfd && chmod 600 /dev/userfaultfd",
    "sysctl vm.unprivileged_userfaultfd=1": "sysctl vm.unprivileged_userfaultfd=1 && sysctl vm.unprivileged_userfaultfd=0",
    "terrace plan": "terrace plan --list",
}

FENCE = re.compile(r"^ *```.*?\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
PROMPT = re.compile(r"^[$#] (.*?)(?:\s+# .*)?$")
SPAN = re.compile(r"`((?:terraced?|systemctl|journalctl|sysctl|chgrp|pip|ninja|apt) [^`]+)`")


def commands_of(text, with_spans):
    """What stands behind a prompt in fences, and with_spans what is a command in the text."""
    found = []
    for block in FENCE.findall(text):
        found += [match[1] for line in block.splitlines() if (match := PROMPT.match(line))]
    if with_spans:
        found += SPAN.findall(FENCE.sub("", text))
    return set(found)


def differences(readme, install):
    for name, found, known in (("README.md", commands_of(readme, False), set(README)),
                               ("docs/install.md", commands_of(install, True), set(INSTALL))):
        yield from (f"{name} has a command that is not tried: {each}" for each in sorted(found - known))
        yield from (f"{name} has no more: {each}" for each in sorted(known - found))


if __name__ == "__main__":
    FOUND = list(differences(*(Path(name).read_text(encoding="utf-8") for name in sys.argv[1:])))
    print("\n".join(FOUND) or f"all {len(set(README) | set(INSTALL))} commands are known")
    sys.exit(1 if FOUND else 0)
