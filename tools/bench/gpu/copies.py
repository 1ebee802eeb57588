"""Sections `copies` and `drive`: the engine's rates beside those of the bare links and of the bare drive.

The ratios are taken within each round, since both drift, and the median over the rounds is what counts.
"""
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

from children import threads_environment

TRANSFERS = Path(__file__).resolve().parent / "transfers.py"
TIMEOUT_SECONDS = 240
LINK_WAYS = ("to_host", "to_device", "both")


def copies(arguments, environment):
    result = transfer(arguments, environment, "link")
    return result if "rounds" not in result else result | {"ways": {
        way: compare(result["rounds"], lambda each: each["link"][way], lambda each: each["engine"][way])
        for way in LINK_WAYS}}


def drive(arguments, environment):
    """Against the slower of drive and link: what no engine could beat."""
    result = transfer(arguments, environment, "drive")
    if "rounds" not in result:
        return result
    place = arguments.gpu
    least = {"write": place.to_host_bytes_per_second, "read": place.to_device_bytes_per_second}
    ways = {"write": "to_host", "read": "to_device"}
    return result | {"ways": {way: compare(result["rounds"], lambda each: min(each["drive"][way], least[way] or 1e15),
                                           lambda each: each["engine"][ways[way]]) for way in ways}}


def compare(rounds, bare, ours):
    return {"bare_bytes_per_second": median(map(bare, rounds)), "engine_bytes_per_second": median(map(ours, rounds)),
            "share": median(ours(each) / bare(each) for each in rounds)}


def fetches(arguments, environment, tell):
    """The same way back for tensors of each size, as many as fill what `copies` moves, two at least."""
    entries, total = [], arguments.transfers[0] * arguments.transfers[1]
    for tensor_bytes in arguments.fetch_bytes:
        result = transfer(arguments, environment, "link", max(2, total // tensor_bytes), tensor_bytes)
        if "rounds" in result:
            result |= compare(result.pop("rounds"), lambda each: each["link"]["to_device"],
                              lambda each: each["engine"]["to_device"])
        entries.append(result)
        tell({"entries": entries})
    return {"entries": entries}


def transfer(arguments, environment, what, count=None, tensor_bytes=None):
    count, tensor_bytes = count or arguments.transfers[0], tensor_bytes or arguments.transfers[1]
    config = {"place": arguments.gpu.spec, "what": what, "count": count, "tensor_bytes": tensor_bytes,
              "rounds": arguments.rounds, "directory": str(arguments.pool)}
    return run_script(TRANSFERS, config, os.environ | threads_environment(1) | environment) | {
        "tensors": count, "tensor_bytes": tensor_bytes}


def run_script(script, config, environment):
    """What the script printed as JSON in its last line, or {"failure"} with the last of what it said."""
    try:
        result = subprocess.run([sys.executable, str(script), json.dumps(config)], env=environment, text=True,
                                capture_output=True, timeout=TIMEOUT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return {"failure": f"did not finish in {TIMEOUT_SECONDS} s"}
    try:
        answer = json.loads(result.stdout.strip().split("\n")[-1])
    except ValueError:
        return {"failure": "; ".join(result.stderr.strip().splitlines()[-2:]) or f"exit code {result.returncode}"}
    return {"failure": answer["error"]} if "error" in answer else answer
