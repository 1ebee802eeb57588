"""How fast a drive reads, by fio, as runs of 2 MiB are read: a few in flight, past the page cache."""
import json
import os
import shutil
import subprocess
from pathlib import Path

ROUNDS = 3
FILE_BYTES = 1 << 30


def read_bytes_per_second(directory, file_bytes=FILE_BYTES):
    """The median of a few reads of a file that is made for it; None where there is no fio, or it fails."""
    fio = shutil.which("fio")
    if fio is None:
        return None
    path = Path(directory, f"terrace-bench-drive-{os.getpid()}")
    try:
        run_fio(fio, path, file_bytes, "write")
        speeds = sorted(run_fio(fio, path, file_bytes, "read") for _ in range(ROUNDS))
        return speeds[ROUNDS // 2]
    except (OSError, ValueError, KeyError, subprocess.CalledProcessError):
        return None
    finally:
        path.unlink(missing_ok=True)


def run_fio(fio, path, file_bytes, direction):
    command = [fio, "--name=drive", f"--filename={path}", f"--rw={direction}", "--bs=2M", "--direct=1",
               "--ioengine=io_uring", "--iodepth=3", f"--size={file_bytes}", "--output-format=json"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(output[output.index("{"):])["jobs"][0][direction]["bw_bytes"]
