"""SGD with momentum, its buffers in DRAM or on NVMe."""
from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from typing import Any

import torch

from ... import library
from .base import Offloaded


class SGD(Offloaded, torch.optim.SGD):
    """torch.optim.SGD with momentum_buffer and, of parameters in bf16 and fp16, master weights in float32 off the
    device; the further arguments are those of terrace.torch.Adam. Without momentum there is nothing to keep:
    ValueError, use PyTorch's.
    """

    def __init__(self, params: Iterable[torch.Tensor] | Iterable[dict[str, Any]], lr: float = 1e-3, momentum: float = 0,
                 dampening: float = 0, weight_decay: float = 0, nesterov: bool = False, *, maximize: bool = False,
                 tier: str = "dram", directory: str | os.PathLike[str] | None = None, nvme_bytes: int | str | None = None,
                 staging: int | str | None = None, threads: int | None = None, writes_per_day: int | str | None = None,
                 writes_total: int | str | None = None, delay: int = 0) -> None:
        self._place(tier, directory, nvme_bytes, staging, threads, writes_per_day, writes_total, delay)
        super().__init__(params, lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay,
                         nesterov=nesterov, maximize=maximize)

    def _names(self, group):
        return ("momentum_buffer",)

    def _rule(self, group):
        flags = (library.MAXIMIZE if group["maximize"] else 0) | (library.NESTEROV if group["nesterov"] else 0)
        return library.OptimizerRule(size=ctypes.sizeof(library.OptimizerRule), kind=library.SGD, flags=flags,
                                     lr=float(group["lr"]), weight_decay=float(group["weight_decay"]),
                                     momentum=float(group["momentum"]), dampening=float(group["dampening"]))

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)
        if not self.param_groups[-1]["momentum"] > 0:
            self.param_groups.pop()
            raise ValueError("momentum: it is 0, and without it SGD has no states to keep elsewhere; use "
                             "torch.optim.SGD")

    def _counted(self, record):  # PyTorch's SGD counts no steps: a buffer is there or not
        return {}

    def _steps_of(self, state):
        return 1
