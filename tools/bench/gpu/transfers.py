#!/usr/bin/python3
"""Copies alone, in a process of its own: the engine's beside the bare links', or its drive's beside the bare drive.

    transfers.py '{"place": "cuda", "what": "link", "count": 16, "tensor_bytes": 67108864, "rounds": 3}'
    transfers.py '{… "what": "drive", "directory": "/var/tmp"}'

Both sides move the same tensors in turns within each round. Prints one line of JSON.
"""
import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # sizes.py

from drive import drive_rates
from engine_speed import EngineFailed, EngineSpeed
from link_speed import WAYS, LinkSpeed, device_tensors
from place import parse_place

STAGING_BYTES = 64 << 20
LEAST_DRAM = 16 << 20  # that the engine opens with
DRAM_SHARE = 4  # a quarter of the tensors in host memory, the rest must go to the drive


def link(config, place, tensors):
    total = config["count"] * config["tensor_bytes"]
    rounds = []
    with LinkSpeed(place, tensors) as bare, EngineSpeed(place, tensors, 3 * total + STAGING_BYTES) as engine:
        engine.rates()  # pins and maps what it will use, and so do the bare copies
        for way in WAYS:
            bare.rate(way)
        for _ in range(config["rounds"]):
            rounds.append({"link": {way: bare.rate(way) for way in WAYS}, "engine": engine.rates()})
        return {"rounds": rounds, "path": engine.path(), "statistics": engine.statistics()}


def drive(config, place, tensors):
    total = config["count"] * config["tensor_bytes"]
    rounds = []
    with EngineSpeed(place, tensors, max(LEAST_DRAM, total // DRAM_SHARE), 3 * total, config["directory"]) as engine:
        engine.rates(both=False)
        for _ in range(config["rounds"]):
            rounds.append({"drive": drive_rates(config["directory"], total), "engine": drive_share(engine, total)})
        return {"rounds": rounds, "path": engine.path(), "statistics": check_written(engine.statistics())}


def drive_share(engine, total):
    """Rates of what crossed the drive alone: what stayed in host memory meanwhile was no work of the drive's."""
    before = engine.statistics()
    rates, after = engine.rates(both=False), engine.statistics()
    crossed = {"to_host": "nvme_written_bytes", "to_device": "nvme_read_bytes"}
    return {way: rate * min(1.0, (after[crossed[way]] - before[crossed[way]]) / total) for way, rate in rates.items()}


def check_written(statistics):
    """The rates would be those of host memory."""
    if statistics["nvme_written_bytes"] < statistics["stored_bytes"] // 2:
        raise EngineFailed(f"of {statistics['stored_bytes']} bytes stored {statistics['nvme_written_bytes']} were "
                           "written to the drive, so its speed was not measured")
    return statistics


def main():
    config = json.loads(sys.argv[1])
    place = parse_place(config["place"])
    tensors = device_tensors(place, config["count"], config["tensor_bytes"])
    try:
        result = {"link": link, "drive": drive}[config["what"]](config, place, tensors)
    except (RuntimeError, OSError) as error:
        result = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(result))
    return 1 if "error" in result else 0


if __name__ == "__main__":
    sys.exit(main())
