"""NVM for a comparison: a place that was named, or, on a machine without any, memory that is slowed down and called so.

A directory of our own on tmpfs stands for persistent memory, and TERRACE_FAULT's nvm-pace keeps the processor busy with each
byte for as long as such memory would. Optane DC, one module: some 2 GB/s written and 6 read (Izraelevitz et al., "Basic Performance
Measurements of the Intel Optane DC Persistent Memory Module", 2019, section 3.3); one rate serves both ways here.
"""
import contextlib
import tempfile

from sizes import format_size

DEFAULT_RATE = 2 << 30


class SlowMemory:
    """A context: `place` as TERRACE_TIERS names it, `name` for people, `environment` of a job that has it."""

    def __init__(self, place=None, bytes_per_second=None):
        self.place, self.bytes_per_second = place, bytes_per_second
        self._stack = contextlib.ExitStack()
        if place is None:
            self.bytes_per_second = bytes_per_second or DEFAULT_RATE

    def __enter__(self):
        if self.place is None:
            self.place = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="terrace-bench-", dir="/dev/shm"))
            self.what = "tmpfs (DRAM)"
        else:
            self.what = self.place
        return self

    def __exit__(self, *_):
        self._stack.close()

    @property
    def name(self):
        return self.what + (f" slowed to {format_size(self.bytes_per_second)}/s" if self.bytes_per_second else "")

    @property
    def environment(self):
        return {"TERRACE_FAULT": f"nvm-pace:{self.bytes_per_second}"} if self.bytes_per_second else {}

    def tiers(self, size_bytes):
        return f"nvm={size_bytes}@{self.place}"
