"""One training step seen as a sequence of marks, with the time between them and the life of each block of memory.

Marks are: a segment begins, a segment ends, a tensor is saved, a saved tensor is wanted, the forward pass is over, the backward
pass is over. A step repeats them exactly, so several passes over it can be laid one upon another, each of which would disturb
the others:

  times     the clock at each mark, several times; the median counts
  memory    every block of PyTorch's allocator, from its profiler's events: when it is taken, when given back
  unheld    a forward pass whose saved tensors nobody holds: when each block would be given back if it left

A tick numbers the marks and the blocks that are taken, in their order. That order is the same in the last two passes, while
blocks are given back at other ticks: a block lives from the tick where it is taken to before the tick where it is given back.
"""
from __future__ import annotations

import contextlib
import statistics
import time
from dataclasses import dataclass, field

import torch

from ..compat import storage_of
from .around import Around
from .segments import Segment, tensors_in

BEGIN, END, SAVED, WANTED, FORWARD, BACKWARD = range(6)
OUTSIDE = -1          # the number of no segment
LEAST_BYTES = 4096    # smaller blocks are the profiler's own as often as the program's
MARK = "terrace-plan#"
DIFFERS = ("model: its step does something else each time, so a plan of one step would not hold; plan a model with a fixed "
           "order of operations")


@dataclass(frozen=True)
class Mark:
    kind: int
    value: int    # the number of a segment, or of a save
    segment: int  # in which it happens; of what is wanted, in which it was saved


@dataclass
class Block:
    nbytes: int
    born: int
    died: int          # a tick; that of the step's end where nobody gave it back
    unheld: int = 0    # the same, of what is taken in the forward pass, where no graph holds it


@dataclass
class Step:
    """What was seen of one step. `tick_of` says the tick of each mark, `seconds` the time before it."""

    segments: list[Segment]
    marks: list[Mark]
    tick_of: list[int]
    seconds: list[float]
    blocks: list[Block]
    saved: list[int | None]            # the block of each save; None: it is not of this step
    inputs: dict[int, set[int]]        # blocks that are arguments of a segment
    base_bytes: int                    # what is there before the step
    plain_seconds: float               # of a step that nobody watches
    zeros: dict[int, float] = field(default_factory=dict)    # share of zeros of a block that is saved
    buffers: dict[int, list] = field(default_factory=dict)   # (module, name) of what a segment's forward pass changes

    @property
    def ticks(self):
        return self.tick_of[-1] + 1


class Run:
    """How a step is run. `inputs` are given to the model, `loss` makes a scalar of what it returns."""

    def __init__(self, model, inputs, loss):
        self.model, self.inputs, self.loss = model, inputs, loss

    def forward(self):
        return self.loss(self.model(*self.inputs))

    def step(self, between=lambda: None):
        value = self.forward()
        between()
        value.backward()

    @contextlib.contextmanager
    def unchanged(self):
        """Gradients, buffers and random numbers are afterwards as they were."""
        parameters = list(self.model.parameters())
        gradients = [parameter.grad for parameter in parameters]
        buffers = [(buffer, buffer.detach().clone()) for buffer in self.model.buffers()]
        with torch.random.fork_rng():
            try:
                for parameter in parameters:
                    parameter.grad = None
                yield
            finally:
                for parameter, gradient in zip(parameters, gradients):
                    parameter.grad = gradient
                for buffer, before in buffers:
                    buffer.data.copy_(before)

    def fresh(self):
        for parameter in self.model.parameters():
            parameter.grad = None


class Watcher:
    """Runs a step and calls `mark` at each; `pack` says what autograd holds of a saved tensor: (what, its number)."""

    def __init__(self, run, segments, mark=lambda: None, holds=True):
        self._run, self._segments, self._mark, self._holds = run, segments, mark, holds
        self.marks, self._inside, self._saves = [], [OUTSIDE], []
        self.pointers, self.inputs, self.zeros = [], {}, None

    def _put(self, kind, value, segment):
        self.marks.append(Mark(kind, value, segment))
        self._mark()

    def segment(self, number, function, arguments, keywords):
        self.inputs[number] = {_address(tensor) for tensor in tensors_in([arguments, keywords])}
        self._put(BEGIN, number, number)
        self._inside.append(number)
        result = function(*arguments, **keywords)
        self._inside.pop()
        self._put(END, number, number)
        return result

    def _pack(self, tensor):
        number = len(self._saves)
        self._saves.append(self._inside[-1])
        self.pointers.append(_address(tensor))
        if self.zeros is not None:
            self.zeros.append(_zeros(tensor))
        self._put(SAVED, number, self._inside[-1])
        return (tensor.detach() if self._holds else None), number

    def _unpack(self, packed):
        tensor, number = packed
        self._put(WANTED, number, self._saves[number])
        return tensor

    def watch(self, backward=True):
        with Around(self._segments, self.segment), torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack):
            if backward:
                self._run.step(lambda: self._put(FORWARD, 0, OUTSIDE))
                self._put(BACKWARD, 0, OUTSIDE)
            else:
                value = self._run.forward()
                self._put(FORWARD, 0, OUTSIDE)
                del value


def _address(tensor):
    try:
        return storage_of(tensor).data_ptr()
    except (RuntimeError, AttributeError):  # sparse, a wrapper
        return 0


def _zeros(tensor):
    with torch.no_grad():
        return 1 - torch.count_nonzero(tensor).item() / max(1, tensor.numel())


def observe(run, segments, base_bytes, device, steps=5):
    """The Step. ValueError: it is not the same each time. The model is afterwards as it was, but for its optimizer, if `run`
    has one."""
    for _ in range(2):
        time_step(run, device)
    plain, gaps = [], []
    for _ in range(steps):
        plain.append(time_step(run, device))
        gaps.append(_gaps(run, segments, device))
    marks, blocks, tick_of, pointers = _memory(run, segments, device)
    if any(seen != marks.marks for seen, _ in gaps):
        raise ValueError(DIFFERS)
    _unheld(run, segments, device, marks, blocks)
    plain_seconds = statistics.median(plain)
    seconds = [statistics.median(times) for times in zip(*(times for _, times in gaps))]
    scale = plain_seconds / sum(seconds)
    step = Step(segments, marks.marks, tick_of, [each * scale for each in seconds], blocks, *pointers, base_bytes, plain_seconds)
    _contents(run, segments, step)
    return step


def time_step(run, device):
    """Seconds of a step that nobody watches."""
    run.fresh()
    begin = time.perf_counter()
    run.step()
    wait(device)
    return time.perf_counter() - begin


def _gaps(run, segments, device):
    run.fresh()
    at = [time.perf_counter()]
    watcher = Watcher(run, segments, lambda: (wait(device), at.append(time.perf_counter())))
    watcher.watch()
    return watcher.marks, [end - begin for begin, end in zip(at, at[1:])]


def wait(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _events(run, segments, device, backward, holds):
    """The watcher; and what happened: ("mark", index), ("take", address, bytes), ("give", address, bytes)."""
    run.fresh()
    count = iter(range(1 << 62))

    def mark():
        with torch.autograd.profiler.record_function(f"{MARK}{next(count)}"):
            pass

    watcher = Watcher(run, segments, mark, holds)
    with torch.autograd.profiler.profile(profile_memory=True, use_cuda=device.type == "cuda") as profiler:
        watcher.watch(backward)
    events = []
    _walk(profiler.kineto_results.experimental_event_tree(), device, events)
    events.sort(key=lambda event: event[0])
    return watcher, [event[1:] for event in events]


def _walk(events, device, out):
    for event in events:
        name = event.name() if callable(event.name) else event.name
        if name.startswith(MARK):
            out.append((event.start_time_ns, "mark", int(name[len(MARK):]), 0))
            continue  # what a range allocates is its own
        fields = event.extra_fields if hasattr(event, "extra_fields") else event.typed[1]
        if type(fields).__name__ == "_ExtraFields_Allocation" and str(fields.device).startswith(device.type):
            size = fields.alloc_size
            if abs(size) >= LEAST_BYTES:
                out.append((event.start_time_ns, "take" if size > 0 else "give", fields.ptr, abs(size)))
        _walk(event.children, device, out)


def _lives(events, watcher):
    """([Block], tick of each mark, [block of each save], {segment: its arguments' blocks})."""
    blocks, tick_of, live, tick = [], [], {}, 0
    saved, inputs = [], {}
    for what, value, nbytes in events:
        if what == "give":
            number = live.pop(value, None)
            if number is not None:
                blocks[number].died = tick
            continue
        if what == "take":
            live[value] = len(blocks)
            blocks.append(Block(nbytes, tick, -1))
        else:
            mark = watcher.marks[value]
            tick_of.append(tick)
            if mark.kind == SAVED:
                saved.append(live.get(watcher.pointers[mark.value]))
            elif mark.kind == BEGIN:
                inputs[mark.value] = {live[address] for address in watcher.inputs[mark.value] if address in live}
        tick += 1
    for block in blocks:
        block.died = tick if block.died < 0 else block.died
    return blocks, tick_of, saved, inputs


def _memory(run, segments, device):
    watcher, events = _events(run, segments, device, backward=True, holds=True)
    if [event[1] for event in events if event[0] == "mark"] != list(range(len(watcher.marks))):
        raise ValueError("model: PyTorch's profiler did not record the step in order; end other profilers first")
    blocks, tick_of, saved, inputs = _lives(events, watcher)
    return watcher, blocks, tick_of, (saved, inputs)


def _unheld(run, segments, device, watcher, blocks):
    """Fills in when each block of the forward pass would die if autograd held nothing."""
    again, events = _events(run, segments, device, backward=False, holds=False)
    others, tick_of, _, _ = _lives(events, again)
    if again.marks != watcher.marks[:len(again.marks)] or any(
            one.nbytes != other.nbytes or one.born != other.born for one, other in zip(blocks, others)
            if one.born <= tick_of[-1]):
        raise ValueError(DIFFERS)
    for block, other in zip(blocks, others):
        block.unheld = min(other.died, block.died)


def _contents(run, segments, step):
    """How many zeros are in what is saved; and the buffers that a segment changes."""
    run.fresh()
    watcher = Watcher(run, segments)
    watcher.zeros = []
    inside = watcher.segment

    def segment(number, function, arguments, keywords):
        part = segments[number]
        modules = [part.owner] if part.first is None else list(part.owner)[part.first:part.end]
        before = [(module, name, buffer.detach().clone()) for top in modules for module in top.modules()
                  for name, buffer in module._buffers.items() if buffer is not None]
        result = inside(number, function, arguments, keywords)
        step.buffers[number] = [(module, name) for module, name, was in before if not torch.equal(module._buffers[name], was)]
        return result

    watcher.segment = segment
    watcher.watch(backward=False)
    for block, share in zip(step.saved, watcher.zeros):
        if block is not None:
            step.zeros[block] = share
