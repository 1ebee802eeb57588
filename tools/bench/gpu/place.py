"""Where a benchmark of the GPU side runs: on a CUDA GPU, or, where none is, on CPU tensors with the emulated device.

The emulated device is host memory with a capacity and links of a set speed. The processor plays the GPU there, so
a step takes as long as it does on a processor, and the copies take processor time which a GPU's copy engines do
not: the figures say what the engine does with such links, never what a GPU does. Every output says which it was.
"""
import argparse
import re
from dataclasses import dataclass

from sizes import parse_size

DEFAULT_EMULATED = "emulated:8G,h2d=12G,d2h=12G"
EMULATED_NOTE = ("No GPU: CPU tensors and the emulated device. The figures say what the engine does with links of the "
                 "set speed beside a processor that computes, not what a GPU does.")


LAG_NOTE = ("The device lags behind the host, which waits for little of what it queues: peaks and what was handed back are "
            "what this shows, step times are not.")


@dataclass(frozen=True)
class Place:
    spec: str                       # as `terrace run --gpu` takes it
    index: int = 0                  # of the CUDA device
    capacity_bytes: int = 0         # the rest: emulated only; rates 0: as fast as memory is
    to_device_bytes_per_second: float = 0
    to_host_bytes_per_second: float = 0
    latency_seconds: float = 0
    lag_seconds: float = 0          # of the default stream behind the host

    @property
    def is_cuda(self):
        return self.spec.startswith("cuda")

    @property
    def torch_device(self):
        return f"cuda:{self.index}" if self.is_cuda else "cpu"

    @property
    def note(self):
        if self.is_cuda:
            return None
        return f"{EMULATED_NOTE} {LAG_NOTE}" if self.lag_seconds else EMULATED_NOTE

    def with_capacity(self, size):
        """The same links on a device of another size: what a job is squeezed into."""
        return self.spec if self.is_cuda else re.sub(r"^emulated:[^,]+", f"emulated:{size}", self.spec)

    def with_lag(self, time):
        """Raises ArgumentTypeError for a GPU, which lags by itself, and for a second lag."""
        if self.is_cuda or self.lag_seconds:
            raise argparse.ArgumentTypeError(f"a lag is an emulated device's, and said once: not of {self.spec}")
        return parse_place(f"{self.spec},lag={time}")


def parse_place(text):
    """Raises ArgumentTypeError with what is accepted; the product's own parser judges the text again later."""
    cuda = re.fullmatch(r"cuda(?::(\d{1,3}))?", text)
    if cuda:
        return Place(text, index=int(cuda[1] or 0))
    kind, _, rest = text.partition(":")
    size, *settings = rest.split(",")
    if kind != "emulated":
        raise argparse.ArgumentTypeError(f"{text!r} is neither cuda, cuda:1 nor like {DEFAULT_EMULATED}")
    known = {"h2d": 0.0, "d2h": 0.0, "latency": 0.0, "lag": 0.0}
    for setting in settings:
        name, _, value = setting.partition("=")
        if name not in known:
            raise argparse.ArgumentTypeError(f"{setting!r} is not h2d=RATE, d2h=RATE, latency=TIME or lag=TIME")
        known[name] = parse_time(value) if name in ("latency", "lag") else float(parse_size(value))
    return Place(text, 0, parse_size(size), known["h2d"], known["d2h"], known["latency"], known["lag"])


def parse_time(text):
    units = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
    match = re.fullmatch(r"(\d+)(ns|us|ms|s)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time; write it as 10us")
    return int(match[1]) * units[match[2]]
