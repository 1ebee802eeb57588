"""Adam and AdamW with their states in DRAM or on NVMe."""
from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from typing import Any

import torch

from ... import library
from . import arithmetic
from .base import Offloaded


class _OffloadedAdam(Offloaded):
    _decoupled = False

    def _names(self, group):
        return ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if group["amsgrad"] else ("exp_avg", "exp_avg_sq")

    def _rule(self, group):
        beta1, beta2 = group["betas"]
        flags = arithmetic.flags()
        for name, flag in (("maximize", library.MAXIMIZE), ("amsgrad", library.AMSGRAD)):
            flags |= flag if group[name] else 0
        if self._decoupled or group.get("decoupled_weight_decay"):
            flags |= library.DECOUPLED
        return library.OptimizerRule(size=ctypes.sizeof(library.OptimizerRule), kind=library.ADAM, flags=flags,
                                     lr=float(group["lr"]), weight_decay=float(group["weight_decay"]),
                                     beta1=float(beta1), beta2=float(beta2), eps=float(group["eps"]))


class Adam(_OffloadedAdam, torch.optim.Adam):
    """torch.optim.Adam with exp_avg, exp_avg_sq and, of parameters in bf16 and fp16, master weights in float32 off the
    device. lr to maximize are PyTorch's arguments, the results those of its for-loop implementation.

    tier            "dram", or "nvme": in a file on a drive, through `staging` of host memory (64 MiB)
    directory       where that file is, unnamed (/var/tmp); nvme_bytes: the most that it takes
    threads         that compute; None: one on each processor
    writes_per_day, writes_total    the drive's endurance budget, shared with the offload's (docs/offload.md)
    delay           1: updates are computed while the next step computes, and come into the parameters one step()
                    later; call synchronize() before parameters are saved or evaluated

    Sizes are bytes or texts such as "64MiB". ValueError names what is wrong. docs/optimizer.md is the guide.
    """

    def __init__(self, params: Iterable[torch.Tensor] | Iterable[dict[str, Any]], lr: float = 1e-3,
                 betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
                 amsgrad: bool = False, *, maximize: bool = False, tier: str = "dram",
                 directory: str | os.PathLike[str] | None = None, nvme_bytes: int | str | None = None,
                 staging: int | str | None = None, threads: int | None = None, writes_per_day: int | str | None = None,
                 writes_total: int | str | None = None, delay: int = 0) -> None:
        self._place(tier, directory, nvme_bytes, staging, threads, writes_per_day, writes_total, delay)
        super().__init__(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad,
                         maximize=maximize)


class AdamW(_OffloadedAdam, torch.optim.AdamW):
    """torch.optim.AdamW with its states off the device; the further arguments are those of terrace.torch.Adam."""

    _decoupled = True

    def __init__(self, params: Iterable[torch.Tensor] | Iterable[dict[str, Any]], lr: float = 1e-3,
                 betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 1e-2,
                 amsgrad: bool = False, *, maximize: bool = False, tier: str = "dram",
                 directory: str | os.PathLike[str] | None = None, nvme_bytes: int | str | None = None,
                 staging: int | str | None = None, threads: int | None = None, writes_per_day: int | str | None = None,
                 writes_total: int | str | None = None, delay: int = 0) -> None:
        self._place(tier, directory, nvme_bytes, staging, threads, writes_per_day, writes_total, delay)
        super().__init__(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad,
                         maximize=maximize)
