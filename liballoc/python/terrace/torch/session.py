"""terrace.torch.offload: the user's handle on an engine and its hooks."""
from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from weakref import WeakMethod

import torch

from .. import sizes
from . import compat
from . import settings as settings_module
from .engine import Engine
from .errors import OffloadError, say
from .fit import Fit
from .hooks import Hooks, unpack
from .memory import CudaMemory, HostMemory
from .watch import Watch

_saved_tensors_hooks = torch.autograd.graph.saved_tensors_hooks


class offload:  # noqa: N801, read as torch.no_grad is
    """What autograd saves inside the with-block lives in host memory, or on NVMe, until backward needs it.

        with terrace.torch.offload(budget="8GiB"):
            loss = criterion(model(batch), target)
        loss.backward()

    One object serves any number of steps, and threads that each enter it; make it once, enter it in each step.
    backward may run inside the block or after it. Gradients are the same to the last bit.

    budget          host memory that may be taken, staging included: 8 GiB, or half of what the machine has
    tiers           "dram" and "nvme": where tensors go. Without "dram" the budget, then 256 MiB, is for staging
    directory       on the NVMe drive, for the pool file (it has no name and goes with the process); None: the
                    pool of the daemon, if there is one and no endurance budget is set, else /var/tmp
    nvme_bytes      most that the pool file takes; 64 GiB, or 80% of what is free
    compress        "auto": where it is measured to pay; "off", "zvc", "zvc_exp", "rle", "csr8"
    min_bytes       smaller tensors stay
    keep_last       so many of those that backward asks for first stay; None: as many as would be on their way out
                    when backward begins (terrace/torch/steps.py has the rule)
    device          whose tensors are taken: "cuda", "cuda:1", "cpu", "emulated:8G,…"; None: TERRACE_GPU's, or that
                    of the first tensor on a GPU, or without a GPU the CPU. Tensors elsewhere stay
    writes_per_day, writes_total   what the drive may be asked to write, over all jobs
    on_full         "keep": what has no room stays on the device, said once; "raise": OffloadError
    limit           device memory the job may take: "auto", what there is; while the job fits, nothing is
                    offloaded (terrace/torch/fit.py). A size; or None: everything is offloaded
    prefetch        device memory for what comes back before it is asked for; None: a 32nd of what a step saves, or
                    its largest tensor
    checksums       "drive": what is written to the drive, and what was compressed, is verified when it comes back;
                    "all": what stays in host memory, too, which costs a pass of a processor each way
    only            "checkpoints": the inputs of torch.utils.checkpoint's checkpoints of either kind, and nothing else; with
                    limit=None the first two steps are watched, and where the peak is not lowered so, they stay, said once
    policy          who decides what leaves when, and when it comes back: "heuristic"; or a plan, of a step that repeats, by
                    "g10", "capuchin_swap", "sentinel_interval" or the "best" of them. A plan is followed where it is
                    neither predicted nor measured to be slower; statistics()["plan"] says which, and why
    trial           "on": as policy says; "off": a plan is followed even where it is slower, to measure what plans do

    ValueError names an argument that cannot be; OffloadError says why the engine cannot be opened.
    """

    def __init__(self, budget: int | str | None = None, tiers: str | Iterable[str] = ("dram",),
                 directory: str | os.PathLike[str] | None = None, compress: str = "auto", min_bytes: int | str = "1MiB",
                 keep_last: int | None = None, device: str | torch.device | None = None,
                 writes_per_day: int | str | None = None, writes_total: int | str | None = None, on_full: str = "keep", *,
                 limit: int | str | None = "auto", nvme_bytes: int | str | None = None, prefetch: int | str | None = None,
                 checksums: str = "drive", only: str | None = None, policy: str = "heuristic",
                 trial: str = "on") -> None:
        self._begin(settings_module.make(budget, tiers, directory, compress, min_bytes, keep_last, device,
                                         writes_per_day, writes_total, on_full, limit, nvme_bytes, prefetch, checksums, only,
                                         policy, trial))
        wanted = self._settings.device or os.environ.get("TERRACE_GPU")
        if wanted:
            self._open(wanted)
        elif not torch.cuda.is_available():
            self._open("cpu")

    def _begin(self, settings):
        self._settings = settings
        self._hooks = self._failed = None
        self._opening = threading.RLock()
        self._entered = threading.local()

    def _open(self, wanted):
        device, settings = torch_device(wanted), self._settings
        engine = Engine(wanted, settings)
        hooks = Hooks(engine, device, settings)
        memory = CudaMemory(device.index) if device.type == "cuda" else HostMemory(wanted, settings.dram_bytes)
        if settings.limit is not None:
            hooks.fit = self._fit(hooks, memory, memory.limit() if settings.limit == "auto" else settings.limit)
        elif settings.only == "checkpoints":
            hooks.watch = Watch(memory, self._fit(hooks, memory, memory.limit()))
        self._hooks = hooks

    @staticmethod
    def _fit(hooks, memory, limit):
        engine, records = hooks.engine, WeakMethod(hooks.records)  # the hooks own the Fit
        return Fit(limit, memory, lambda: records()(), lambda: engine.statistics().get("dram_bytes", 0),
                   hooks.outbound.spill, hooks.outbound.let_go, hooks.planned and hooks.planned.used)

    # ---- as a context ---------------------------------------------------------------------------------------

    def __enter__(self) -> offload:
        hooks = self._hooks
        pair = _saved_tensors_hooks(hooks.pack if hooks else self._pack, hooks.unpack if hooks else unpack)
        pair.__enter__()
        try:
            self._entered.pairs.append(pair)
        except AttributeError:
            self._entered.pairs = [pair]
        return self

    def __exit__(self, *exception: object) -> None:
        self._entered.pairs.pop().__exit__(*exception)

    def _pack(self, tensor):
        """Until the first tensor shows which device it is."""
        hooks = self._hooks or self._hooks_for(tensor)
        return hooks.pack(tensor) if hooks else (tensor.detach(), tensor._version)

    def _hooks_for(self, tensor):
        if self._failed or not tensor.is_cuda or type(tensor) is not torch.Tensor:
            return None
        with self._opening:
            if self._hooks is None and not self._failed:
                self._open(f"cuda:{tensor.get_device()}")
            return self._hooks

    # ---- as an object ---------------------------------------------------------------------------------------

    def hooks(self) -> Hooks | None:
        """What it has at PyTorch, for the parts of this package; None before the first tensor."""
        return self._hooks

    def step(self) -> None:
        """The step is over: what it offloaded and nobody released is forgotten; its backward would raise.

        Not needed where graphs are dropped after their backward pass, which is nearly always.
        """
        if self._hooks is not None:
            self._hooks.end_step()

    def statistics(self) -> dict[str, int | str]:
        """Counters by name: those of struct terrace_offload_statistics and of terrace.torch.hooks.Counts."""
        if self._hooks is None:
            return {}
        counts, engine = self._hooks.counts, self._hooks.engine
        return {**engine.statistics(), **{name: getattr(counts, name) for name in counts.__slots__},
                "device": engine.device, "path": engine.path, "plan": engine.plan_text()}

    def metrics(self) -> dict[str, int]:
        """The numbers of statistics() under the names that loggers group by: "terrace/stored_bytes" and so on."""
        return {f"terrace/{name}": value for name, value in self.statistics().items() if isinstance(value, int)}

    def close(self) -> None:
        """Gives everything back. No backward pass is under way; one that still needs what is stored will raise."""
        if self._hooks is not None:
            self._hooks.close()

    def __repr__(self):
        if self._hooks is None:
            return "<terrace.torch.offload, no tensor seen yet>"
        live = sizes.text(self.statistics().get("live_bytes", 0))
        return f"<terrace.torch.offload of {self._hooks.engine.device}, {live} stored>"


class automatic_offload(offload):  # noqa: N801
    """As the environment says, from the first tensor that is saved on; never in the program's way."""

    def __init__(self, settings, wanted):
        self._begin(settings)
        self._wanted = wanted

    def _hooks_for(self, tensor):
        if self._failed or type(tensor) is not torch.Tensor:
            return None
        with self._opening:
            if self._hooks is None and not self._failed:
                self._open_automatically(tensor)
            return self._hooks

    def _open_automatically(self, tensor):
        if self._wanted:
            self._open(self._wanted)
        elif tensor.is_cuda:
            self._open(f"cuda:{tensor.get_device()}")
        elif tensor.device.type == "cpu" and not torch.cuda.is_available():
            self._open("cpu")

    def is_innermost(self):
        """Whether its hooks are those that apply in this thread."""
        pairs, top = getattr(self._entered, "pairs", None), compat.innermost_hooks(True)
        return bool(pairs and top and top[0] == pairs[-1].pack_hook)

    def _open(self, wanted):
        try:
            super()._open(wanted)
        except (OffloadError, ValueError) as error:
            self._failed = True
            say(f"{error}. Saved tensors are not offloaded; the program goes on")


def torch_device(wanted):
    """The torch.device that has the tensors of "cuda:1", "cpu" or "emulated:8G,…"; ValueError for none of them."""
    kind, _, rest = wanted.partition(":")
    if kind in ("cpu", "emulated") and (kind == "emulated") == bool(rest):
        return torch.device("cpu")
    if kind == "cuda" and (rest.isascii() and rest.isdigit() or not rest):
        if not torch.cuda.is_available():
            raise OffloadError(f"device: {wanted!r} is not there: PyTorch finds no CUDA GPU (is this a build of it with "
                               "CUDA, is the driver loaded?); device='emulated:8G' plays one")
        return torch.device("cuda", int(rest) if rest else torch.cuda.current_device())
    raise ValueError(f"device: {wanted!r} is not known; write \"cuda\", \"cuda:1\", \"cpu\", or an emulated GPU as "
                     "\"emulated:8G,h2d=12G,d2h=12G,latency=10us\"")
