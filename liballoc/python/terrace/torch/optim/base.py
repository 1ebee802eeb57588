"""What the optimizers have in common: which parameter has which states where, a step, and state_dict().

A class of its own inherits from Offloaded and from PyTorch's optimizer of that name, which checks the arguments, knows
the defaults, and is what isinstance() and schedulers ask for. Of it, step(), state_dict() and load_state_dict() are
replaced. `state` is empty but while state_dict() runs: the states are in the library.

A subclass has _names(group), the states in the library's order, and _rule(group), a library.OptimizerRule.
"""
from __future__ import annotations

import contextlib
import ctypes

import torch

from ... import library
from ..errors import OffloadError
from .delay import Delay
from .staging import Staging
from .states import States, StatesError, make_config

TYPES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}  # terrace_optimizer_type
MASTER = "master_param"


class Record:
    """A parameter's states: their number in the library, what they were made for, and how many updates they had."""

    __slots__ = ("number", "planes", "made_for", "steps")

    def __init__(self, number, planes, parameter):
        self.number, self.planes, self.made_for, self.steps = number, planes, (parameter.shape, parameter.dtype), 0


class Offloaded:
    """To be inherited from before a torch.optim.Optimizer."""

    def _place(self, tier, directory, nvme_bytes, staging, threads, writes_per_day, writes_total, delay):
        """Before the optimizer's __init__(), which adds parameters. ValueError, OffloadError."""
        if delay not in (0, 1) or isinstance(delay, bool):
            raise ValueError(f"delay: {delay!r} is not known; it is 0, or 1 for updates that come a step later")
        self._config = make_config(tier, directory, nvme_bytes, staging, threads, writes_per_day, writes_total)
        self._staging_bytes = self._config.staging_bytes
        self._states = States(self._config)
        self._records = {}
        self._delay = Delay() if delay else None

    def add_param_group(self, param_group):
        """As PyTorch's; a parameter whose type or device it cannot serve is refused here."""
        super().add_param_group(param_group)
        try:
            for index, parameter in enumerate(self.param_groups[-1]["params"]):
                _check_parameter(parameter, f"parameter {index} of group {len(self.param_groups) - 1}")
        except TypeError:
            self.param_groups.pop()
            raise

    @torch.no_grad()
    def step(self, closure=None):
        """One update of all parameters that have a gradient; the closure's loss, or None.

        OffloadError (a RuntimeError): a parameter's states cannot be read or are damaged. The text says which
        parameters were updated before it; the others, and it from the element on that is named, are as they were.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self.synchronize()
        planned = self._collect()
        if self._delay is not None:
            self._delay.begin(planned, self._carry_out)
            return loss
        direct = all(_is_direct(parameter) for _, parameter, _ in planned)
        self._carry_out(planned, None if direct else Staging(planned, self._staging_bytes))
        return loss

    def synchronize(self) -> None:
        """With delay=1: waits for the update that is under way, and puts it into the parameters."""
        if self._delay is not None:
            self._delay.settle()

    def statistics(self) -> dict[str, int | str]:
        """Counters by name (docs/optimizer.md), and `path`: where the states are and what computes."""
        if self._delay is not None:
            self._delay.wait()
        return {**self._states.statistics(), "path": self._states.path}

    def close(self) -> None:
        """Ends threads and forgets the states; no step can follow."""
        try:
            self.synchronize()
        finally:
            self._states.close()

    # One step

    def _collect(self):
        """[(record, parameter, rule)] of parameters with gradients, in the order in which the library goes."""
        planned = []
        for number, group in enumerate(self.param_groups):
            rule = None
            for index, parameter in enumerate(group["params"]):
                if parameter.grad is None or parameter.numel() == 0:
                    continue
                _check_gradient(parameter.grad, f"parameter {index} of group {number}")
                if rule is None:
                    rule = self._rule(group)
                planned.append((self._record(parameter, group), parameter, rule))
        planned.sort(key=lambda one: (one[0].planes, one[0].number))
        return planned

    def _record(self, parameter, group):
        record = self._records.get(parameter)
        if record is None:
            planes = len(self._names(group)) + (parameter.dtype != torch.float32)
            try:
                record = Record(self._states.add(parameter.numel(), planes), planes, parameter)
            except OffloadError as error:
                raise OffloadError(f"{self._name(parameter)} cannot get its states: {error}") from None
            self._records[parameter] = record
        if record.made_for != (parameter.shape, parameter.dtype):
            raise RuntimeError(f"{self._name(parameter)} has states for shape {list(record.made_for[0])} and "
                               f"{record.made_for[1]}, but is {parameter.dtype} now; make a new optimizer after a model's "
                               "parameters were replaced")
        return record

    def _carry_out(self, planned, copies):
        """`copies`: where parameters and gradients are found, instead of in place; see Staging and Delay."""
        if not planned:
            return
        updates = (library.OptimizerUpdate * len(planned))()
        gradients = []  # kept until the end
        for update, (record, parameter, rule) in zip(updates, planned):
            update.size, update.id, update.step = ctypes.sizeof(update), record.number, record.steps + 1
            update.rule = ctypes.pointer(rule)
            update.parameter_type = TYPES[parameter.dtype]
            if copies is None:
                gradients.append(parameter.grad.contiguous())
                update.gradient_type = TYPES[gradients[-1].dtype]
                update.parameter, update.gradient = parameter.data_ptr(), gradients[-1].data_ptr()
        if copies is not None:
            copies.describe(updates, TYPES)
        try:
            self._states.step(updates, None if copies is None else copies.flow(updates))
        except StatesError as error:
            if copies is not None and copies.error is not None:
                raise copies.error from None
            raise OffloadError(self._account(error, planned, updates)) from None
        finally:
            for update, (record, parameter, _) in zip(updates, planned):
                record.steps += update.done_elements == parameter.numel()
                if copies is None and update.done_elements:
                    parameter.view(-1)[:0].zero_()  # autograd has to know that it was changed
            if copies is not None:
                copies.end()

    def _account(self, error, planned, updates):
        """What was done and what not, for people."""
        done = sum(update.done_elements == parameter.numel() for update, (_, parameter, _) in zip(updates, planned))
        _, parameter, _ = planned[error.index]
        partly = ", ".join(f"{self._name(p)} in its first {update.done_elements} elements"
                           for update, (_, p, _) in zip(updates, planned) if 0 < update.done_elements < p.numel())
        return (f"{self._name(parameter)} cannot be updated, {error}. Of this step's {len(planned)} parameters "
                f"{done} were updated{' and ' + partly if partly else ''}; the others are as they were. Load an "
                "earlier state_dict(), of model and optimizer, to go on")

    def _name(self, parameter):
        for number, group in enumerate(self.param_groups):
            for index, other in enumerate(group["params"]):
                if other is parameter:
                    names = group.get("param_names")
                    name = f" '{names[index]}'" if names else ""
                    return f"parameter {index}{name} of group {number}, shape {list(parameter.shape)},"
        return "a parameter"

    # state_dict

    def _tensors(self, parameter, group, record):
        """A parameter's states as PyTorch keeps them: float32, on the parameter's device."""
        names = self._names(group) + ((MASTER,) if parameter.dtype != torch.float32 else ())
        tensors = {name: torch.empty(parameter.shape, dtype=torch.float32) for name in names}
        try:
            self._states.read(record.number, list(tensors.values()))
        except OffloadError as error:
            raise OffloadError(f"the states of {self._name(parameter)} cannot be read, {error}") from None
        return {name: tensor.to(parameter.device) for name, tensor in tensors.items()}

    def state_dict(self):
        """As PyTorch's, to be loaded by this class and by PyTorch's of the same name. Takes host memory for all
        states. Parameters that are not float32 have a state more, `master_param`, which PyTorch's ignores."""
        self.synchronize()
        with contextlib.ExitStack() as stack:
            stack.callback(self.state.clear)
            for group in self.param_groups:
                for parameter in group["params"]:
                    record = self._records.get(parameter)
                    if record is not None and record.steps:
                        self.state[parameter] = {**self._counted(record),
                                                 **self._tensors(parameter, group, record)}
            return super().state_dict()

    def _counted(self, record):
        return {"step": torch.tensor(float(record.steps))}

    def _steps_of(self, state):
        return int(state["step"])

    def load_state_dict(self, state_dict):
        """As PyTorch's. What was saved by PyTorch's optimizer of the same name is taken, too; parameters that are
        not float32 get their master weights from themselves then. ValueError: a state is missing or does not fit."""
        self.synchronize()
        states = state_dict["state"]
        checked = [(parameter, group, self._checked(parameter, {**group, **saved}, states[key]))
                   for saved, group in zip(state_dict["param_groups"], self.param_groups)
                   for key, parameter in zip(saved["params"], group["params"]) if _has_states(states.get(key))]
        super().load_state_dict({**state_dict, "state": {}})  # refuses other groups
        self._states.close("were replaced")
        self._states, self._records = States(self._config), {}
        for parameter, group, (steps, tensors) in checked:
            record = self._record(parameter, group)  # group: with the settings that came
            self._states.write(record.number, tensors)
            record.steps = steps

    def _checked(self, parameter, group, state):
        """(steps, the planes) of a saved state."""
        tensors = []
        for name in self._names(group) + ((MASTER,) if parameter.dtype != torch.float32 else ()):
            tensor = state.get(name)
            if name == MASTER and tensor is None:
                tensor = parameter.detach()
            if tensor is None or tuple(tensor.shape) != tuple(parameter.shape):
                raise ValueError(f"state_dict: {self._name(parameter)} has no state {name!r} of that shape; load what an "
                                 f"optimizer with the same settings saved")
            tensors.append(tensor.detach().to("cpu", torch.float32).contiguous())
        return self._steps_of(state), tensors

    def __getstate__(self):
        raise TypeError(f"{type(self).__name__} cannot be copied or pickled, as its states are not in Python; save "
                        "state_dict()")


def _check_parameter(parameter, name):
    if parameter.dtype not in TYPES:
        raise TypeError(f"{name} is {parameter.dtype}; float32, bfloat16 and float16 are served, use PyTorch's optimizer "
                        "for others")
    if parameter.layout is not torch.strided:
        raise TypeError(f"{name} is {parameter.layout}; only dense parameters are served")


def _check_gradient(gradient, name):
    if gradient.layout is not torch.strided:
        raise RuntimeError(f"the gradient of {name} is sparse; use torch.optim.SparseAdam for it, or an embedding with "
                           "sparse=False")
    if gradient.dtype not in TYPES:
        raise RuntimeError(f"the gradient of {name} is {gradient.dtype}; float32, bfloat16 and float16 are served")


def _has_states(state):
    return any(value is not None for name, value in (state or {}).items() if name != "step")


def _is_direct(parameter):
    return parameter.device.type == "cpu" and parameter.is_contiguous()
