"""What one training step does, seen at PyTorch's dispatcher.

A TorchDispatchMode gets every operator just before it runs, below autograd, so that forward, backward and optimizer
look alike. Three modes for three passes over the same step, because each would disturb the others: StructureMode
records which operator reads and writes which storage, and when a storage dies; TimingMode reads the clock around
each operator and does nothing else; MarkerMode puts a named range around each, so that the allocator's events
can be told apart. The step must run the same operators each time; check_same() says so where it does not.
"""
import statistics
import time

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from step_memory import MARKER

ZEROING = ("relu", "hardtanh", "threshold", "dropout")  # operators whose outputs are worth counting zeros in
RANDOM = ("rand", "bernoulli", "dropout", "normal_", "uniform_", "multinomial", "rrelu_with_noise", "exponential_")


def tensors_in(value):
    """All tensors in nested lists, tuples and dictionaries."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from tensors_in(inner)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))


def storage_of(tensor):
    if hasattr(tensor, "untyped_storage"):
        return tensor.untyped_storage()
    storage = tensor.storage()
    return storage.untyped() if hasattr(storage, "untyped") else storage._untyped()


# Arguments of which these operators need no more than whether each value is above zero, or not even that: ReLU's backward
# pass sets to 0 the gradients of what is not above the threshold; max-pooling's adds gradients up where the indices say, and
# of what was pooled it takes the shape.
SIGN_ONLY = {"aten::threshold_backward": "self", "aten::max_pool2d_with_indices_backward": "self",
             "aten::max_pool3d_with_indices_backward": "self"}


def op_name(func):
    return str(func).replace("aten.", "aten::", 1).removesuffix(".default")


def written(func, args, kwargs):
    """The arguments that the operator's schema says it changes."""
    for place, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield from tensors_in(args[place] if place < len(args) else kwargs.get(argument.name))


def given_arguments(func, args, kwargs):
    """By the names of its schema; those that were left out are None."""
    return {argument.name: args[place] if place < len(args) else kwargs.get(argument.name)
            for place, argument in enumerate(func._schema.arguments)}


def running_statistics(func, args, kwargs):
    """The running mean and variance that batch normalisation updates, which its schema need not say; none in evaluation."""
    given = given_arguments(func, args, kwargs)
    if not (given.get("training") or given.get("train")):
        return []
    return list(tensors_in([given.get("running_mean"), given.get("running_var")]))


def is_view(func):
    """Whether all that the operator gives are other views of what it got, by its schema."""
    given = [result.alias_info for result in func._schema.returns]
    return bool(given) and all(alias is not None and not alias.is_write for alias in given)


def signs_read(func, args, kwargs):
    """(tensors of which the operator reads the signs alone, or nothing, the others that it gets); none of both if it does so
    of none. Whoever reads by a view names the storage itself."""
    if is_view(func):
        return list(tensors_in([args, kwargs])), []
    name = SIGN_ONLY.get(op_name(func))
    given = given_arguments(func, args, kwargs) if name else {}
    if not given or given.get("threshold", 0) != 0:
        return [], []
    return list(tensors_in(given.pop(name))), list(tensors_in(given))


class Storages:
    """Storages by identity. A weak reference keeps the identity from being used again, not the memory."""

    def __init__(self, device):
        self.device = device
        self.tensors = []  # dictionaries, by id
        self.died_after = []  # index of an operator, or None
        self.refs = {}  # identity -> (id, weak reference)

    def id_of(self, tensor, kind, persistent=False):
        """The id of the tensor's storage, a new one if it was not seen yet; None if it lies elsewhere or is empty."""
        if tensor.device.type != self.device.type or tensor.layout != torch.strided:
            return None
        storage = storage_of(tensor)
        if storage.nbytes() == 0:
            return None
        known = self.refs.get(storage._cdata)
        if known is not None:
            return known[0]
        number = len(self.tensors)
        self.refs[storage._cdata] = (number, StorageWeakRef(storage))
        self.tensors.append({"id": number, "bytes": storage.nbytes(), "kind": kind, "persistent": persistent,
                             "dtype": str(tensor.dtype).removeprefix("torch."), "shape": list(tensor.shape)})
        self.died_after.append(None)
        return number

    def sweep(self, last_op):
        """Notes what has died since the last operator."""
        dead = [identity for identity, (_, ref) in self.refs.items() if ref.expired()]
        for identity in dead:
            self.died_after[self.refs.pop(identity)[0]] = last_op


class StructureMode(TorchDispatchMode):
    def __init__(self, storages):
        super().__init__()
        self.storages = storages
        self.ops = []
        self.phase = "forward"

    def _ids(self, tensors, kind):
        ids = (self.storages.id_of(t, kind) for t in tensors)
        return list(dict.fromkeys(i for i in ids if i is not None))

    def _kind(self):
        return {"forward": "activation", "backward": "gradient", "optimizer": "optimizer"}[self.phase]

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        self.storages.sweep(len(self.ops) - 1)
        op = {"name": op_name(func), "time_us": 0.0,
              "inputs": self._ids(tensors_in([args, kwargs]), "input"), "workspace_bytes": 0}
        beside = self._ids(running_statistics(func, args, kwargs), "other")
        for number in beside:
            self.storages.tensors[number]["running_statistics"] = True
        changed = self._ids(written(func, args, kwargs), "other")
        result = func(*args, **kwargs)
        given = self._ids(tensors_in(result), self._kind())
        made = [i for i in given if i not in op["inputs"]]
        op["outputs"] = list(dict.fromkeys(changed + beside + made))
        signs, others = (self._ids(tensors, "input") for tensors in signs_read(func, args, kwargs))
        if signs := [i for i in signs if i not in others + op["outputs"]]:
            op["sign_only"] = signs
        if any(word in op["name"] for word in RANDOM):
            op["recomputable"] = False
        flops = flops_of(op["name"], args, result)
        if flops:
            op["flops"] = flops
        if any(word in op["name"] for word in ZEROING) and "backward" not in op["name"]:
            self._count_zeros(result)
        self.ops.append(op)
        return result

    def _count_zeros(self, result):
        for tensor in tensors_in(result):
            number = self.storages.id_of(tensor, "other")
            if number is not None and tensor.numel() > 0:
                zeros = 1 - torch.count_nonzero(tensor).item() / tensor.numel()
                self.storages.tensors[number]["sparsity"] = round(zeros, 6)


class TimingMode(TorchDispatchMode):
    """Begin and end of each operator. On a GPU two events on the stream, on a CPU the clock around the call."""

    def __init__(self, on_gpu):
        super().__init__()
        self.on_gpu = on_gpu
        self.names = []
        self.spans = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        self.names.append(func)
        if self.on_gpu:
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            result = func(*args, **kwargs)
            end.record()
            self.spans.append((begin, end))
            return result
        begin = time.perf_counter_ns()
        result = func(*args, **kwargs)
        self.spans.append((begin, time.perf_counter_ns()))
        return result

    def times_us(self):
        if not self.on_gpu:
            return [(end - begin) / 1000 for begin, end in self.spans]
        torch.cuda.synchronize()
        return [begin.elapsed_time(end) * 1000 for begin, end in self.spans]

    def gaps_us(self, step_begin, step_end):
        """Time before the first operator, between operators and after the last, of a step on a CPU."""
        ends = [step_begin] + [end for _, end in self.spans]
        begins = [begin for begin, _ in self.spans] + [step_end]
        return [(begin - end) / 1000 for begin, end in zip(begins, ends)]


class MarkerMode(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += 1
        with torch.autograd.profiler.record_function(f"{MARKER}{self.count - 1}"):
            return func(*args, **(kwargs or {}))


def check_same(expected, names):
    if [op["name"] for op in expected] != names:
        raise ValueError("the step runs other operators each time; a trace of one step would not describe it")


def flops_of(name, args, result):
    """Multiplications and additions of the operators that have most of them."""
    if name in ("aten::mm", "aten::bmm"):
        return 2 * result.numel() * args[0].shape[-1]
    if name == "aten::addmm":
        return 2 * result.numel() * args[1].shape[-1]
    if name == "aten::convolution":
        return 2 * result.numel() * args[1][0].numel()
    if name == "aten::convolution_backward":  # the gradients of input and weight each cost as much as the forward pass
        return 2 * args[0].numel() * args[2][0].numel() * sum(bool(wanted) for wanted in args[10][:2])
    return None


def overheads_us(calls=2000):
    """What TimingMode itself costs an operator: (within the measured time, between two measured times).

    Within: calling from Python rather than from C++, as the median of calls of an operator that does nothing, less the
    same in a loop of TorchScript. Between: the way into the mode and out of it, as the median gap in that loop."""
    tensor = torch.zeros(1)
    loop = torch.jit.script(_detach_loop)
    for _ in range(3):  # TorchScript compiles during the first calls
        loop(tensor, calls)
    begin = time.perf_counter_ns()
    loop(tensor, calls)
    native = (time.perf_counter_ns() - begin) / calls / 1000
    mode = TimingMode(False)
    with mode:
        loop(tensor, calls)
    within = statistics.median(mode.times_us())
    between = statistics.median(mode.gaps_us(mode.spans[0][0], mode.spans[-1][1])[1:-1])
    return max(0.0, within - native), between


def _detach_loop(tensor: torch.Tensor, calls: int) -> torch.Tensor:
    for _ in range(calls):
        tensor = tensor.detach()
    return tensor
