"""terrace.torch.plan: keep, offload, compress or recompute, decided for each segment of a model before it trains."""
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import torch

from ... import sizes
from ..errors import say
from ..session import offload
from . import published
from .around import Around
from .calibrate import calibrate
from .choose import CURVE, UNIFORM, Chooser
from .force import put_in_force
from .links import measure_link
from .observe import Run, observe
from .replay import COMPRESS, KEEP, MIN_BYTES, NAMES, RECOMPUTE, Replay
from .segments import find_segments, tensors_in
from .trials import fastest
from .watch import Measured, Watched

POLICIES = ("best", "superneurons", *published.POLICIES, *UNIFORM)


def plan(model: torch.nn.Module, sample: Any, budget: int | str, *, loss: Callable[[Any], torch.Tensor] | None = None,
         optimizer: torch.optim.Optimizer | None = None, policy: str = "best", kinds: Iterable[str] = NAMES[1:],
         device: str | None = None, codec: str = "zvc", host_budget: int | str | None = None, tiers: str | Iterable[str] = ("dram",),
         directory: str | None = None, curve: bool = True, steps: int = 5) -> Plan:
    """Profiles a step of `model`, chooses for each segment what becomes of its saved tensors, and puts that in force.

        plan = terrace.torch.plan(model, batch, "50%", loss=lambda output: criterion(output, target))
        for batch, target in loader:
            ...                                     # as before; after five steps their peak and time are said beside the prediction
        plan.remove()

    sample       what the model is called with: a tensor, or a tuple. Steps of its shape are what is predicted
    budget       device memory for everything: parameters, gradients, the optimizer's states, the sample, and what a step
                 makes. A size, or a percentage of what the step takes without a plan
    loss         makes a scalar of what the model returns; None: the mean of its squares
    optimizer    its states are counted; it does not step
    policy       "best", or one of POLICIES: choose.py has them
    kinds        of "offload", "compress" and "recompute" those that may be chosen
    device       as of terrace.torch.offload: "emulated:8G,d2h=12G,h2d=12G" beside CPU tensors; None: the model's
    codec        of what is compressed: "zvc", "zvc_exp", "rle", "csr8"
    host_budget, tiers, directory    as budget, tiers and directory of terrace.torch.offload
    curve        whether the step's time at other budgets is predicted and said
    steps        how many are timed

    The step runs some 2 * steps + 6 times, forward and backward, and five times more for each of `kinds`. With the policy "best" it runs
    seven times or more for each of the few plans that are tried, as often again for the first two, and eleven times or more for the one
    that is taken. Gradients, buffers and random numbers are as before afterwards, and gradients of planned steps have the same bits. A
    step is a forward and a backward pass; the optimizer's time is not part of it.
    It begins without gradients (`zero_grad(set_to_none=True)`): those that stay from step to step are there in its forward pass, too.
    ValueError: the step differs each time, the budget cannot be met (with the least that can), or an argument cannot be.
    """
    kinds = _kinds(kinds)
    if policy not in POLICIES:
        raise ValueError(f"policy: {policy!r} is not known; it is one of {', '.join(map(repr, POLICIES))}")
    inputs = sample if isinstance(sample, tuple) else (sample,)
    run = Run(model, inputs, loss or _mean_square)
    where = next(model.parameters()).device
    with run.unchanged():
        segments = find_segments(model, run.forward)
        if not segments:
            raise ValueError(f"model: {type(model).__name__} has no module that is called once in a step and saves something; "
                             "plan the module that does the work")
        step = observe(run, segments, _base_bytes(model, inputs, optimizer), where, steps)
    settings = {"budget": host_budget, "tiers": tiers, "directory": directory, "device": device or str(where), "limit": None,
                "keep_last": 0, "min_bytes": MIN_BYTES}
    sessions = {kind: offload(compress=codec if kind == COMPRESS else "off", **settings) for kind in kinds if kind != RECOMPUTE}
    try:
        replay = Replay(step, {kind: measure_link(session, where, kind == COMPRESS) for kind, session in sessions.items()},
                        RECOMPUTE in kinds)
        with run.unchanged():
            replay.overheads = calibrate(run, replay, sessions, where)
        made = Plan(model, replay, sessions)
        made._choose(budget, policy, curve)
        if policy == "best":
            with run.unchanged():
                made._take_fastest(run, where)
        say(made.text())
        made._apply()
    except BaseException:
        for session in sessions.values():
            session.close()
        raise
    return made


class Plan:
    """What plan() returns. `plain` and `predicted` have peak_bytes and seconds, `choices` a word for each segment's name, `curve`
    (percent of the plain peak, seconds or None). `measured` has those of the steps that were taken, once there are."""

    def __init__(self, model: torch.nn.Module, replay: Replay, sessions: dict[int, offload]) -> None:
        self._model, self._step, self._replay, self._sessions = model, replay.step, replay, sessions
        self._chooser = Chooser(replay)
        self._around: Around | None = None
        self._watched: Watched | None = None
        self.plain = self._chooser.uniform(KEEP)
        self.curve: list[tuple[int, float | None]] = []
        self.budget_bytes = 0

    def _choose(self, budget, policy, curve):
        self.budget_bytes = sizes.parse_share(budget, self.plain.peak_bytes, "budget")
        self.predicted = self._by(policy)
        if self.predicted.peak_bytes > self.budget_bytes:
            self._refuse(policy)
        if curve:
            self.curve = [(percent, None if found is None else found.seconds) for percent, found in self._chooser.curve(CURVE)]
            if policy == "best":
                self.predicted = self._chooser.within(self.budget_bytes)

    def _take_fastest(self, run, device):
        finalists = self._chooser.finalists(self.budget_bytes)
        if finalists != [self.plain]:
            self.predicted = fastest(run, self._step, finalists, self._sessions, device)

    def _by(self, policy):
        if policy in UNIFORM:
            return self._chooser.uniform(UNIFORM[policy])
        if policy == "superneurons":
            return self._chooser.superneurons(self.budget_bytes)
        if policy in published.POLICIES:
            return published.choose(self._chooser, self._replay, policy, self.budget_bytes)
        return self._chooser.best(self.budget_bytes)

    def _refuse(self, policy):
        least = self.predicted if policy in UNIFORM else self._chooser.smallest()
        raise ValueError(f"budget: {sizes.text(self.budget_bytes)} cannot be met with policy={policy!r}, which takes "
                         f"{sizes.text(self.predicted.peak_bytes)}; the least that was found is {sizes.text(least.peak_bytes)}, the plain "
                         f"step takes {sizes.text(self.plain.peak_bytes)}")

    @property
    def choices(self) -> dict[str, str]:
        return {segment.name: NAMES[kind] for segment, kind in zip(self._step.segments, self.predicted.choice)}

    @property
    def measured(self) -> Measured | None:
        return self._watched.measured if self._watched is not None else None

    def text(self) -> str:
        """What was chosen, and what other budgets cost."""
        counts = Counter(self.choices.values())
        kinds = ", ".join(f"{name} {counts[name]}" for name in NAMES if counts[name])
        lines = [f"plan for {sizes.text(self.budget_bytes)}: {sizes.text(self.predicted.peak_bytes)} and {self.predicted.seconds:.4f} s predicted "
                 f"for a step that takes {sizes.text(self.plain.peak_bytes)} and {self.plain.seconds:.4f} s without; segments: {kinds}"]
        for percent, seconds in self.curve:
            what = "not met by any plan that was found" if seconds is None else f"{seconds / self.plain.seconds:.3f} of the plain step's time"
            lines.append(f"  {percent:3d}% ({sizes.text(self.plain.peak_bytes * percent // 100)}): {what}")
        return "\n".join(lines)

    def _apply(self):
        for kind, session in self._sessions.items():
            if kind not in self.predicted.choice:
                session.close()  # its host memory
        self._around = put_in_force(self._step, self.predicted.choice, self._sessions)
        self._watched = Watched(self._model, next(self._model.parameters()).device, self._step.base_bytes, self.predicted)

    def statistics(self) -> dict[str, dict[str, int | str]]:
        """terrace.torch.offload's, of what leaves as it is and of what is compressed."""
        return {NAMES[kind]: session.statistics() for kind, session in self._sessions.items()}

    def remove(self) -> None:
        """The model is as it was. Every backward pass is over. Again is allowed."""
        if self._around is not None:
            self._watched.remove()
            self._around.remove()
            self._around = None
            for session in self._sessions.values():
                session.close()

    def __repr__(self):
        return f"<terrace.torch.Plan, {sizes.text(self.predicted.peak_bytes)} of {sizes.text(self.plain.peak_bytes)}>"


def _mean_square(output):
    if not isinstance(output, torch.Tensor):
        raise ValueError(f"loss: the model returns {type(output).__name__} and no tensor; say loss=lambda output: … that makes a scalar of it")
    return output.float().square().mean()


def _kinds(kinds):
    found = [NAMES.index(kind) if kind in NAMES[1:] else None for kind in ([kinds] if isinstance(kinds, str) else kinds)]
    if None in found:
        raise ValueError(f"kinds: {kinds!r} has more in it than {', '.join(map(repr, NAMES[1:]))}")
    return found


def _base_bytes(model, inputs, optimizer):
    """Of everything that is there before a step, each memory once."""
    from ..compat import storage_of
    states = [] if optimizer is None else [list(state.values()) for state in optimizer.state.values()]
    tensors = tensors_in([list(model.parameters()), list(model.buffers()), list(inputs), states])
    storages = {storage_of(tensor).data_ptr(): storage_of(tensor).nbytes() for tensor in tensors}
    return sum(storages.values())
