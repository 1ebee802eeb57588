"""The arguments of `terrace bench gpu`, and the sizes that go with the machine it runs on."""
import argparse
import os
from pathlib import Path

from place import DEFAULT_EMULATED, parse_place
from sizes import parse_size

SECTIONS = ("steps", "policies", "fetches", "copies", "drive", "largest", "heap")

# On a GPU a long sequence: arithmetic for each saved byte as PCIe 5 has rate, parameters a tenth of the activations,
# and a peak (by count 60 GB) that leaves room on a card of 80 GB. On a processor about half a second a step.
NETWORKS = {
    "cuda": {"kind": "attention", "width": 4096, "length": 65536, "depth": 6, "batch": 1, "dtype": "bfloat16"},
    "emulated": {"kind": "blocks", "width": 128, "length": 2048, "depth": 12, "batch": 1, "dtype": "float32"},
    "quick": {"kind": "blocks", "width": 64, "length": 8192, "depth": 4, "batch": 1, "dtype": "float32"},
}
# Deep and narrow: what one block needs at once is small beside what all of them save.
LARGEST = {
    "cuda": {"kind": "attention", "width": 1024, "length": 128, "depth": 24, "dtype": "bfloat16"},
    "emulated": {"kind": "blocks", "width": 64, "length": 256, "depth": 24, "dtype": "float32"},
    "quick": {"kind": "blocks", "width": 64, "length": 512, "depth": 8, "dtype": "float32"},
}
LARGEST_MEMORY = {"cuda": "4G", "emulated": "384M", "quick": "256M"}
DRAM = {"cuda": "64G", "emulated": "4G", "quick": "1G"}
TRANSFERS = {"cuda": (16, 64 << 20), "emulated": (16, 16 << 20), "quick": (16, 4 << 20)}
FETCH_BYTES = {"cuda": (1 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30), "emulated": (1 << 20, 16 << 20, 64 << 20),
               "quick": (1 << 20, 4 << 20)}


def parse_arguments(description, default_place):
    parser = argparse.ArgumentParser(prog="terrace bench gpu", description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", type=parse_place, metavar="DEVICE", default=default_place,
                        help=f"measure on cuda, cuda:1, or the emulated device (a GPU where there is one, else {DEFAULT_EMULATED})")
    parser.add_argument("--lag", metavar="TIME", help="let the emulated device run so far behind the host, as a GPU does (50ms)")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS), metavar="SECTION",
                        help=f"measure these sections only: {' '.join(SECTIONS)}")
    parser.add_argument("--contenders", nargs="+", metavar="NAME", help="measure these contenders only, named by the beginnings of their names")
    parser.add_argument("--network", choices=["blocks", "attention"])
    for name in ("width", "length", "depth", "batch"):
        parser.add_argument(f"--{name}", type=positive, help=f"train a network of this {name}")
    parser.add_argument("--rounds", type=positive, default=5, help="give each contender so many turns beside plain (5)")
    parser.add_argument("--steps", type=positive, default=2, help="measure so many steps in each turn (2)")
    parser.add_argument("--settle", type=positive, default=3, help="run so many steps before anything is measured (3)")
    parser.add_argument("--policy", default="best", metavar="NAME", help="compare the plan of this policy with the heuristic in section policies (best)")
    parser.add_argument("--settle-policies", type=positive, help="run so many steps before a plan is measured (24)")
    parser.add_argument("--threads", type=positive, default=max(1, len(os.sched_getaffinity(0)) - 1),
                        help="compute with so many threads (all processors but one, which plays the copy engines)")
    parser.add_argument("--dram", type=parse_size, metavar="SIZE", help="let Terrace take so much host memory")
    parser.add_argument("--largest-memory", type=parse_size, metavar="SIZE", help="give section largest so much device memory")
    parser.add_argument("--pool", type=Path, default=Path("/var/tmp"), help="put the pool into this directory on the NVMe drive (/var/tmp)")
    parser.add_argument("--quick", action="store_true", help="measure small sizes and one round: this shows that it works, not how fast")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return complete(parser, parser.parse_args())


def positive(text):
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return int(text)


def complete(parser, arguments):
    if not arguments.pool.is_dir():
        parser.error(f"--pool {arguments.pool} is not a directory")
    if arguments.lag:
        try:
            arguments.gpu = arguments.gpu.with_lag(arguments.lag)
        except argparse.ArgumentTypeError as error:
            parser.error(f"--lag: {error}")
    scale = "quick" if arguments.quick else "cuda" if arguments.gpu.is_cuda else "emulated"
    if arguments.quick:
        arguments.rounds = 1
    arguments.settle_policies = arguments.settle_policies or (3 if arguments.quick else 24)
    arguments.network = NETWORKS[scale] | {"seed": 0} | chosen(kind=arguments.network, **{
        name: getattr(arguments, name) for name in ("width", "length", "depth", "batch")})
    arguments.largest_network = LARGEST[scale] | {"seed": 0}
    arguments.largest_memory = arguments.largest_memory or parse_size(LARGEST_MEMORY[scale])
    arguments.dram = arguments.dram or parse_size(DRAM[scale])
    arguments.transfers, arguments.fetch_bytes = TRANSFERS[scale], FETCH_BYTES[scale]
    return arguments


def chosen(**facts):
    return {name: value for name, value in facts.items() if value is not None}
