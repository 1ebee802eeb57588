"""States of one optimizer in libterrace_gpu.so: its parameters' numbers, its steps, and its errors in words.

A forked child inherits memory, but neither threads nor the drive's queue: `handle` is None there, as it is once the
states have been closed.
"""
import ctypes
import os

from ... import library, sizes
from .. import settings
from ..engine import follow
from ..errors import OffloadError, say
from ..settings import drive_bytes, one_of

LEAST_STAGING, STAGING = 16 * 2**20, 64 * 2**20  # terrace_optimizer.h
MOST_THREADS = 256


def make_config(tier, directory, nvme_bytes, staging, threads, writes_per_day, writes_total):
    """The checked arguments as the library takes them. ValueError names the argument and what is accepted."""
    one_of(tier, "tier", settings.TIERS)
    directory = os.fspath(directory) if directory is not None else None
    staging = STAGING if staging is None else sizes.parse(staging, "staging")
    if staging < LEAST_STAGING:
        raise ValueError(f"staging: {sizes.text(staging)} are too few; {sizes.text(LEAST_STAGING)} are needed")
    threads = 0 if threads is None else threads
    if not isinstance(threads, int) or isinstance(threads, bool) or not 0 <= threads <= MOST_THREADS:
        raise ValueError(f"threads: {threads!r} is not a number of threads; write 1 to {MOST_THREADS}, or None for one "
                         "on each processor")
    fault = os.environ.get("TERRACE_FAULT") or None
    drive = drive_bytes(nvme_bytes, directory or settings.DIRECTORY) if tier == "nvme" else 0
    return library.OptimizerConfig(
        size=ctypes.sizeof(library.OptimizerConfig), nvme_bytes=drive,
        nvme_directory=directory and os.fsencode(directory), staging_bytes=staging, threads=threads,
        writes_per_day_bytes=0 if writes_per_day is None else sizes.parse(writes_per_day, "writes_per_day"),
        writes_total_bytes=0 if writes_total is None else sizes.parse(writes_total, "writes_total"),
        fault=fault and fault.encode())


class StatesError(OffloadError):
    """A step's failure: `index` is the update that was not carried out."""

    def __init__(self, text, index):
        super().__init__(text)
        self.index = index


class States:
    """Owns the states; closed by close() or with the last reference. Raises OffloadError when they cannot be had."""

    __slots__ = ("library", "handle", "gone_because", "path", "_reason", "_warned", "__weakref__")

    def __init__(self, config):
        self.handle = None
        try:
            self.library = library.load()
        except library.LibraryError as error:
            raise OffloadError(f"the optimizer's library is not there: {error.strerror}") from error
        self._reason = ctypes.create_string_buffer(library.REASON_BYTES)
        handle = ctypes.c_void_p()
        code = self.library.optimizer_open(ctypes.byref(config), ctypes.byref(handle), self._reason, library.REASON_BYTES)
        if code != 0:
            raise OffloadError(f"the optimizer's states have no place, {self._words(code)}")
        self.handle, self.gone_because, self._warned = handle.value, None, ""
        self.path = self.library.optimizer_path(self.handle).decode(errors="replace")
        follow(self)
        self._warn()

    def _words(self, code):
        return f"{library.error_name(code)}: {self._reason.value.decode(errors='replace')}"

    def _warn(self):
        warning = self.library.optimizer_warning(self.handle).decode(errors="replace")
        kind = warning.partition(":")[0]  # what follows are amounts
        if warning and kind != self._warned:
            say(warning)
        self._warned = kind

    def _alive(self):
        if self.handle is None:
            raise OffloadError(f"the optimizer's states are gone: they {self.gone_because}")
        return self.handle

    def add(self, elements, planes):
        """Makes `planes` states of zeros for a parameter; its number."""
        number = ctypes.c_uint64()
        code = self.library.optimizer_add(self._alive(), elements, planes, ctypes.byref(number), self._reason,
                                          library.REASON_BYTES)
        if code != 0:
            raise OffloadError(self._words(code))
        return number.value

    def _copy(self, function, number, tensors):
        """`tensors`: contiguous, float32, in host memory; None leaves a plane out."""
        planes = (ctypes.c_void_p * len(tensors))(*(t if t is None else t.data_ptr() for t in tensors))
        code = function(self._alive(), number, planes, self._reason, library.REASON_BYTES)
        if code != 0:
            raise OffloadError(self._words(code))

    def read(self, number, tensors):
        self._copy(self.library.optimizer_read, number, tensors)

    def write(self, number, tensors):
        self._copy(self.library.optimizer_write, number, tensors)
        self._warn()

    def step(self, updates, flow=None):
        """Carries out an array of library.OptimizerUpdate. StatesError if one of them could not be."""
        failed = ctypes.c_size_t()
        code = self.library.optimizer_step(self._alive(), updates, len(updates), flow and ctypes.byref(flow),
                                           ctypes.byref(failed), self._reason, library.REASON_BYTES)
        self._warn()
        if code != 0:
            raise StatesError(self._words(code), failed.value)

    def statistics(self):
        """The counters by name; {} once the states are gone."""
        if self.handle is None:
            return {}
        counters = library.OptimizerStatistics(size=ctypes.sizeof(library.OptimizerStatistics))
        self.library.optimizer_get_statistics(self.handle, ctypes.byref(counters))
        return {name: getattr(counters, name) for name, _ in library.OptimizerStatistics._fields_[1:]}

    def close(self, because="were closed"):
        """No other thread uses the states. Again is allowed."""
        if self.handle is not None:
            handle, self.handle, self.gone_because = self.handle, None, because
            self.library.optimizer_close(handle)

    def __del__(self):
        self.close()
