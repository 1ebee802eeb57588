"""What a measurement was made on: processor, memory, kernel, disk, versions, commit. Unknown values are absent."""
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path


def describe(directory):
    """`directory` lies on the file system that holds the pool and the swap file."""
    facts = {
        "cpu": field("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": kibibytes(field("/proc/meminfo", "MemTotal")),
        "kernel": platform.release(),
        "virtual": "hypervisor" in (field("/proc/cpuinfo", "flags") or "").split(),
        "transparent_huge_pages": chosen("/sys/kernel/mm/transparent_hugepage/enabled"),
        "swap_bytes_already_on": kibibytes(field("/proc/meminfo", "SwapTotal")),
        "swappiness": number("/proc/sys/vm/swappiness"),
        "disk": disk(directory),
    }
    return {name: value for name, value in facts.items() if value is not None}


def field(path, name):
    for line in text(path).splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return None


def text(path):
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def kibibytes(value):
    return int(value.split()[0]) * 1024 if value else None


def number(path):
    return int(text(path)) if text(path).isdigit() else None


def chosen(path):
    match = re.search(r"\[(\w+)\]", text(path))
    return match[1] if match else None


def disk(directory):
    device = os.stat(directory).st_dev
    block = Path(os.path.realpath(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"))
    whole = block if (block / "queue").exists() else block.parent
    facts = {"directory": str(directory), "device": block.name, "model": text(whole / "device/model") or None,
             "rotational": number(whole / "queue/rotational"), "file_system": file_system(directory)}
    return {name: value for name, value in facts.items() if value is not None}


def file_system(directory):
    result = subprocess.run(["stat", "-f", "-c", "%T", str(directory)], capture_output=True, text=True, check=False)
    return result.stdout.strip() or None


def commit(repository):
    """The commit that was measured, with '+' if files were changed since; None outside a checkout, or without git."""
    if shutil.which("git") is None:
        return None
    git = ["git", "-C", str(repository)]
    head = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=False)
    if head.returncode:
        return None
    dirty = subprocess.run([*git, "diff", "--quiet", "HEAD"], capture_output=True, check=False).returncode
    return head.stdout.strip() + ("+" if dirty else "")
