"""What a user may set, checked once: arguments of offload(), or the environment that `terrace run` prepares.

Nothing is clamped. Host memory that nobody spoke of has a default that the machine can bear: 8 GiB, or half of
what the machine (or its memory cgroup) has where that is less. The drive's default is TERRACE_POOL_SIZE's: 64 GiB,
or 80% of what is free.
"""
from __future__ import annotations

import os
import shutil
from dataclasses import dataclass

from .. import sizes
from .memory import host_limit

CODECS = ("auto", "off", "zvc", "zvc_exp", "rle", "csr8")
TIERS = ("dram", "nvme")
CHECKSUMS = ("drive", "all")
ONLY = (None, "checkpoints")
TRIAL = ("on", "off")
POLICIES = ("heuristic", "best", "g10", "capuchin_swap", "sentinel_interval")  # terrace_gpu.h
LEAST_DRAM = 16 * 2**20  # terrace_gpu.h
STAGING = 256 * 2**20  # where nothing is to stay in host memory
DIRECTORY = "/var/tmp"


@dataclass(frozen=True)
class Settings:
    dram_bytes: int
    nvme_bytes: int
    directory: str | None  # None: the daemon's pool, or DIRECTORY
    compress: str
    min_bytes: int
    keep_last: int | None
    device: str | None
    writes_per_day: int
    writes_total: int
    on_full: str
    limit: int | str | None  # bytes, "auto", or None: everything is offloaded
    prefetch_bytes: int | None  # None: by what a step saves
    fault: str | None
    checksums: str = CHECKSUMS[0]
    only: str | None = None  # "checkpoints": of what autograd saves, the inputs of checkpoints
    policy: str = POLICIES[0]
    trial: str = TRIAL[0]


def one_of(value, name, accepted):
    if value not in accepted:
        raise ValueError(f"{name}: {value!r} is not known; it is one of {', '.join(map(repr, accepted))}")
    return value


def make(budget=None, tiers=TIERS[:1], directory=None, compress="auto", min_bytes="1MiB", keep_last=None, device=None,
         writes_per_day=None, writes_total=None, on_full="keep", limit="auto", nvme_bytes=None, prefetch=None,
         checksums=CHECKSUMS[0], only=None, policy=POLICIES[0], trial=TRIAL[0]):
    """Settings of checked arguments. ValueError names the argument, its value, and what is accepted."""
    tiers = _tiers(tiers)
    directory = os.fspath(directory) if directory is not None else None
    return Settings(
        dram_bytes=_dram(budget, tiers),
        nvme_bytes=drive_bytes(nvme_bytes, directory or DIRECTORY) if "nvme" in tiers else 0,
        directory=directory,
        compress=one_of(compress, "compress", CODECS),
        min_bytes=sizes.parse(min_bytes, "min_bytes"),
        keep_last=_count(keep_last, "keep_last"),
        device=None if device is None else str(device),
        writes_per_day=0 if writes_per_day is None else sizes.parse(writes_per_day, "writes_per_day"),
        writes_total=0 if writes_total is None else sizes.parse(writes_total, "writes_total"),
        on_full=one_of(on_full, "on_full", ("keep", "raise")),
        limit=_limit(limit),
        prefetch_bytes=None if prefetch is None else sizes.parse(prefetch, "prefetch"),
        fault=os.environ.get("TERRACE_FAULT") or None,
        checksums=one_of(checksums, "checksums", CHECKSUMS),
        only=one_of(only, "only", ONLY),
        policy=one_of(policy, "policy", POLICIES),
        trial=one_of(trial, "trial", TRIAL))


# variable: argument of make()
_VARIABLES = {"TERRACE_OFFLOAD_BUDGET": "budget", "TERRACE_OFFLOAD_TIERS": "tiers", "TERRACE_OFFLOAD_MIN": "min_bytes",
              "TERRACE_OFFLOAD_LIMIT": "limit", "TERRACE_OFFLOAD_CHECKSUMS": "checksums", "TERRACE_OFFLOAD_POLICY": "policy",
              "TERRACE_COMPRESS": "compress", "TERRACE_POOL_DIR": "directory", "TERRACE_POOL_SIZE": "nvme_bytes",
              "TERRACE_WRITES_PER_DAY": "writes_per_day", "TERRACE_WRITES_TOTAL": "writes_total"}


def from_environment(environment=os.environ):
    """Settings of the variables that are set and not empty. ValueError names the variable."""
    arguments = {argument: environment[variable] for variable, argument in _VARIABLES.items()
                 if environment.get(variable)}
    if "directory" in arguments:  # the pool may be striped over several; what is offloaded goes to the first
        arguments["directory"] = arguments["directory"].split(",")[0]
    if arguments.get("limit") == "none":
        arguments["limit"] = None
    if environment.get("TERRACE_OFFLOAD") == "checkpoints":
        arguments["only"] = "checkpoints"
    try:
        return make(**arguments)
    except ValueError as error:
        name = str(error).split(":")[0]
        variable = next((v for v, argument in _VARIABLES.items() if argument == name), name)
        raise ValueError(f"{variable}: {str(error).partition(': ')[2]}") from None


def _tiers(tiers):
    tiers = tuple(tiers.split(",") if isinstance(tiers, str) else tiers)
    if not tiers or len(set(tiers)) != len(tiers):
        raise ValueError(f"tiers: {tiers!r} is not a list of tiers; write ('dram',), ('nvme',) or ('dram', 'nvme')")
    for tier in tiers:
        one_of(tier, "tiers", TIERS)
    return tiers


def _dram(budget, tiers):
    host = host_limit()
    usual = min(8 * 2**30, host // 2) if "dram" in tiers else STAGING
    size = usual if budget is None else sizes.parse(budget, "budget")
    if size < LEAST_DRAM:
        raise ValueError(f"budget: {sizes.text(size)} are too few; staging alone takes {sizes.text(LEAST_DRAM)}")
    if size > host:
        raise ValueError(f"budget: {sizes.text(size)} are more than this machine, or the memory cgroup that it runs in, "
                         f"has; ask for at most {host // 2**20}M")
    return size


def _limit(limit):
    if limit in ("auto", None):
        return limit
    try:
        return sizes.parse(limit, "limit")
    except ValueError as error:
        raise ValueError(f"{error}, 'auto', or None (in TERRACE_OFFLOAD_LIMIT: none) to offload everything") from None


def drive_bytes(nvme_bytes, directory):
    """What a pool file in `directory` may take, where `nvme_bytes` may say it."""
    if nvme_bytes is not None:
        return sizes.parse(nvme_bytes, "nvme_bytes")
    try:
        return min(64 * 2**30, shutil.disk_usage(directory).free * 8 // 10)
    except OSError as error:
        raise ValueError(f"directory: {directory!r} cannot be used ({error.strerror}); name one on the drive that "
                         "may be written to") from None


def _count(value, name):
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise ValueError(f"{name}: {value!r} is not a number of tensors; write 0, 1, 2, … or None")
    return value
