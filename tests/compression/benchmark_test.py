#!/usr/bin/python3
"""`terrace bench compression --quick` runs to its end, and its JSON has what people and tools read from it.

    benchmark_test.py PROGRAM DIRECTORY            shape of the report, refusals; nothing about speeds
    benchmark_test.py PROGRAM DIRECTORY CAPTURE    the same on what the capturing script made; 77 without torch
"""
import array
import json
import shutil
import subprocess
import sys
from pathlib import Path

PROGRAM, DIRECTORY = sys.argv[1], Path(sys.argv[2])
CODECS = ["zvc", "zvc_exp", "rle", "csr8", "lz4", "zstd"]


def run(*options):
    return subprocess.run([PROGRAM, *map(str, options)], capture_output=True, text=True, timeout=110, check=False)


def report_of(*options):
    path = DIRECTORY / "report.json"
    done = run("--quick", "--json", path, *options)
    assert done.returncode == 0, done.stderr
    return json.loads(path.read_text()), done.stdout


def write_captured(directory, **changes):
    """A tensor of 64 KiB, every other element zero."""
    directory.mkdir(exist_ok=True)
    values = array.array("f", [0.0, 1.5] * 8192)
    (directory / "a.f32").write_bytes(values.tobytes())
    tensor = {"file": "a.f32", "network": "toy", "weights": "fresh", "layer": "relu", "kind": "relu", "element": "f32",
              "shape": [16384], "bytes": 65536, "sparsity": 0.5} | changes
    (directory / "index.json").write_text(
        json.dumps({"format": "terrace-activations", "version": 1, "tensors": [tensor]}))
    return directory


def check_heading(report):
    assert report["format"] == "terrace-bench-compression" and report["version"] == 1
    assert report["quick"] is True and report["rounds"] == 1
    assert "scalar" in report["kernels"]
    assert report["command"].startswith("terrace bench compression --quick")
    assert report["working_set"]["tensors"] * report["working_set"]["tensor_bytes"] == 16 << 20


def check_speed(report):
    names = [data["name"] for data in report["speed"]]
    assert names[0] == "f32 62%" and "f32 dense" in names and "bf16 62%" in names, names
    for data in report["speed"]:
        assert data["memcpy_bytes_per_s"] > 0 and data["streaming_copy_bytes_per_s"] > 0
        for contender in data["contenders"]:
            assert contender["compress_bytes_per_s"]["median"] > 0 and contender["decompress_bytes_per_s"]["median"] > 0
            assert contender["ratio"] > 0.95, contender
    headline = {contender["name"]: contender for contender in report["speed"][0]["contenders"]}
    for name in ["zvc " + kernels for kernels in report["kernels"]] + ["zvc_exp", "lz4", "zstd -1", "blosc lz4+shuffle"]:
        assert name in headline, name
    # All sets of kernels write the same bytes.
    assert len({headline["zvc " + kernels]["ratio"] for kernels in report["kernels"]}) == 1


def check_ratios(report):
    assert len(report["ratios"]) == 4 * 12
    for row in report["ratios"]:
        assert sorted(row["ratio"]) == sorted(CODECS)
        assert row["zvc_to_mask_and_values"] >= 0.995, row
    by_name = {row["name"]: row for row in report["exponent_ratios"]}
    assert by_name["f32"]["zvc_exp"] > by_name["f32"]["zvc"]


def check_targets(report, printed):
    names = [target["name"] for target in report["targets"]]
    assert len(names) >= 17, names
    for part in ("on all cores", "f16, 80%", "in the caches", "f16 to f32", "the checksum's share"):
        assert any(part in name for name in names), part
    assert len(report["in_caches"]) == 2 * len(report["kernels"])
    for target in report["targets"]:
        within = target["value"] <= target["target"] if target["at_most"] else target["value"] >= target["target"]
        assert target["met"] == within, target
        assert target["name"] in printed
    assert printed.count("MISSED") == sum(not target["met"] for target in report["targets"])


def check_captured(report, networks):
    assert {group["network"] for group in report["captured"]} == networks
    for group in report["captured"]:
        assert 0 < group["sparsity"] < 1 and group["bytes"] > 0
        assert [contender["name"] for contender in group["contenders"]][0] == "memcpy"


def check_refusals():
    for options in (["--rounds", "0"], ["--size", "x"], ["--size", "15"], ["--colour", "red"], ["--json"]):
        done = run(*options)
        assert done.returncode == 2 and done.stderr, (options, done)
    unwritable = run("--quick", "--json", DIRECTORY / "nowhere" / "report.json")
    assert unwritable.returncode == 2 and "--json" in unwritable.stderr, unwritable
    missing = run("--quick", "--captured", DIRECTORY / "nowhere")
    assert missing.returncode == 1 and "nowhere/index.json" in missing.stderr, missing.stderr
    for changes in ({"bytes": 65540}, {"file": "../a.f32"}, {"file": "b.f32"}, {"element": "f64"}, {"network": 7}):
        done = run("--quick", "--captured", write_captured(DIRECTORY / "damaged", **changes))
        assert done.returncode == 1 and "--captured" in done.stderr, (changes, done)


def main():
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    DIRECTORY.mkdir(parents=True)
    if len(sys.argv) > 3:
        try:
            import torchvision  # pylint: disable=import-outside-toplevel,unused-import
        except ImportError as reason:
            print(f"SKIP: {reason}")
            return 77
        networks = {"alexnet", "mobilenet_v2"}
        subprocess.run([sys.argv[3], DIRECTORY / "captured", "--quick", "--networks", ",".join(sorted(networks))],
                       check=True, timeout=100)
        check_captured(report_of("--captured", DIRECTORY / "captured")[0], networks)
        return 0
    report, printed = report_of("--captured", write_captured(DIRECTORY / "captured"))
    check_heading(report)
    check_speed(report)
    check_ratios(report)
    check_targets(report, printed)
    check_captured(report, {"toy"})
    check_refusals()
    return 0


if __name__ == "__main__":
    sys.exit(main())
