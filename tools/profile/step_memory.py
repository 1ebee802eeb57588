"""What the allocator did during a step, from the profiler's tree of events (exact order, nanoseconds).

It counts every block of PyTorch's allocator, oneDNN's reordered weights and other temporaries inside operators
included, which no tensor of the program shows.
"""
import torch

MARKER = "terrace#"  # before the index of an operator, in the names of profiler ranges


def _name(event):
    return event.name() if callable(event.name) else event.name


def _allocation(event, device):
    """Bytes that were allocated (negative: freed) on the device, or None if the event is something else."""
    fields = event.extra_fields if hasattr(event, "extra_fields") else event.typed[1]
    if type(fields).__name__ != "_ExtraFields_Allocation":
        return None
    kind = getattr(fields, "device_type", None)
    on_device = kind is None or str(kind).lower().endswith(device.type)
    return fields.alloc_size if on_device else 0


def _walk(events, device, op, out):
    for event in events:
        name = _name(event)
        inner = int(name.removeprefix(MARKER)) if name.startswith(MARKER) else op
        size = _allocation(event, device)
        if size is not None:
            out.append((event.start_time_ns, inner, size))
        _walk(event.children, device, inner, out)


def _recorded(step, device):
    with torch.autograd.profiler.profile(profile_memory=True, use_cuda=device.type == "cuda") as profiler:
        step()
    events = []
    _walk(profiler.kineto_results.experimental_event_tree(), device, None, events)
    return sorted(events, key=lambda e: e[0])  # stable: equal times stay in the tree's order


def _marker_events(device):
    """How many events a marker makes itself (PyTorch 1.13 allocates a handle for it, later versions do not)."""
    def empty():
        with torch.autograd.profiler.record_function(MARKER + "0"):
            pass

    return sum(op is not None for _, op, _ in _recorded(empty, device))


def allocations(step, device):
    """Runs the step; (nanoseconds, index of the marked operator or None, bytes) of all allocator events in order,
    without those of the markers."""
    own, seen, events = _marker_events(device), {}, []
    for event in _recorded(step, device):
        op = event[1]
        seen[op] = seen.get(op, 0) + 1
        if op is None or seen[op] > own:
            events.append(event)
    return events


def peak_bytes(events):
    """The most that was allocated at once since the first event."""
    live = most = 0
    for _, _, size in events:
        live += size
        most = max(most, live)
    return most


def workspaces(events, ops, new_bytes):
    """Per operator, what it needed beside what lived before and what it gave: the most that it had allocated at once,
    less the new storages among its outputs (new_bytes)."""
    live, most = [0] * ops, [0] * ops
    for _, op, size in events:
        if op is not None:
            live[op] += size
            most[op] = max(most[op], live[op])
    return [max(0, m - new) for m, new in zip(most, new_bytes)]
