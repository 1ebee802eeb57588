"""How long a tensor takes out of the device's memory and back, by a session's own engine: measured, not assumed."""
import time

import torch

from ..look import ELEMENTS
from .replay import Link, Way

SMALL, BIG = 2**20, 2**24
ROUNDS = 5
PATIENCE_S = 10.0


def measure_link(session, device, compresses):
    """Link of a session that has its device. Two sizes tell what is for each tensor and what for each byte; with a codec two
    shares of zeros tell what is for each byte that is kept."""
    times = {(nbytes, zeros): _measure(session, device, nbytes, zeros)
             for nbytes in (SMALL, BIG) for zeros in ((0.0, 0.5) if compresses else (0.0,))}
    return Link(*(_way({key: both[index] for key, both in times.items()}) for index in (0, 1)))


def _way(times):
    per_byte = max(0.0, times[BIG, 0.0] - times[SMALL, 0.0]) / (BIG - SMALL)
    kept = max(0.0, times[BIG, 0.0] - times.get((BIG, 0.5), times[BIG, 0.0])) / (BIG / 2)
    kept = min(kept, per_byte)
    return Way(max(0.0, times[SMALL, 0.0] - SMALL * per_byte), per_byte - kept, kept)


def _measure(session, device, nbytes, zeros):
    """(seconds out, seconds back), the least of a few rounds: what others do meanwhile is not the link's."""
    tensor = torch.linspace(1, 2, nbytes // 4, device=device)
    tensor[:int(zeros * tensor.numel())] = 0
    rounds = [_once(session, tensor) for _ in range(ROUNDS)]
    return tuple(map(min, zip(*rounds)))


def _once(session, tensor):
    hooks = session.hooks()
    engine, stream = hooks.engine, hooks.stream()
    library, handle, to = engine.library, engine.handle, torch.empty_like(tensor)
    nbytes = tensor.numel() * tensor.element_size()
    _synchronize(tensor.device)
    begin = time.perf_counter()
    code = engine.save(handle, tensor.data_ptr(), nbytes, ELEMENTS[tensor.dtype], nbytes, stream)
    if code < 0:
        raise ValueError(f"budget of host memory: {nbytes} bytes cannot be stored ({code}); give the plan a larger host_budget")
    number = code >> 1
    while not code & 1 and library.left(handle, number) == 0 and time.perf_counter() - begin < PATIENCE_S:
        time.sleep(20e-6)
    left = time.perf_counter()
    library.fetch_arrive(handle, number, to.data_ptr(), stream)
    _synchronize(tensor.device)
    back = time.perf_counter()
    library.release(handle, number, stream)
    return left - begin, back - left


def _synchronize(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)
