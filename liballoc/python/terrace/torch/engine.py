"""One offload engine of libterrace_gpu.so, its errno values as Python sees them, and what a fork does to it.

The calls on the hot path are reached as attributes of the library, with the engine's address as `handle`; here is
what surrounds them. A forked child inherits memory, but neither the engine's threads nor the GPU: `handle` is
None there, as it is once the engine has been closed, and nothing calls the library again.
"""
import atexit
import ctypes
import json
import os
import weakref

from .. import library
from .errors import OffloadError, say

_engines = weakref.WeakSet()


def follow(engine):
    """Sees to it that `engine`, which has `handle`, `gone_because` and close(), is not used in a forked child and is
    closed before the program ends."""
    _engines.add(engine)


class Engine:
    """Owns the engine; closed by close() or with the last reference. Raises OffloadError when it cannot be made."""

    __slots__ = ("library", "save", "handle", "device", "gone_because", "path", "policy", "_final", "__weakref__")

    def __init__(self, device, settings):
        try:
            self.library = library.load()
        except library.LibraryError as error:
            raise OffloadError(f"the offload engine is not there: {error.strerror}") from error
        self.save = getattr(self.library, "save", None) or library.Save(self.library)
        self.device, self.policy = device, settings.policy
        self.handle = self._open(device, settings)
        self.gone_because = None
        self.path = (self.library.path(self.handle) or b"").decode(errors="replace")
        self._final = None
        warning = (self.library.warning(self.handle) or b"").decode(errors="replace")
        if warning:
            say(warning)
        follow(self)

    def _open(self, device, settings):
        config = library.Config(size=ctypes.sizeof(library.Config), device=device.encode(),
                                dram_bytes=settings.dram_bytes, nvme_bytes=settings.nvme_bytes,
                                nvme_directory=settings.directory and os.fsencode(settings.directory),
                                compress=settings.compress.encode(), read_ahead_bytes=0,
                                writes_per_day_bytes=settings.writes_per_day,
                                writes_total_bytes=settings.writes_total,
                                fault=settings.fault and settings.fault.encode(),
                                checksums=settings.checksums.encode(), policy=settings.policy.encode(),
                                trial=settings.trial.encode())
        handle, reason = ctypes.c_void_p(), ctypes.create_string_buffer(library.REASON_BYTES)
        code = self.library.open(ctypes.byref(config), ctypes.byref(handle), reason, library.REASON_BYTES)
        if code != 0:
            words = reason.value.decode(errors="replace") or "it gave no reason"
            raise OffloadError(f"the offload engine for {device!r} cannot be opened, "
                               f"{library.error_name(code)}: {words}")
        return handle.value

    def statistics(self):
        """The engine's counters by name; the last ones once it is closed, {} in a forked child."""
        if self.handle is None:
            return dict(self._final or {})
        counters = library.Statistics(size=ctypes.sizeof(library.Statistics))
        if self.library.get_statistics(self.handle, ctypes.byref(counters)) != 0:
            return {}
        return {name: getattr(counters, name) for name, _ in library.Statistics._fields_[1:]}

    def plan_text(self):
        """Which plan is in force, or why none is."""
        if self.handle is None or self.policy == "heuristic":
            return "heuristic"
        text = ctypes.create_string_buffer(library.REASON_BYTES)
        self.library.plan_text(self.handle, text, library.REASON_BYTES)
        return text.value.decode(errors="replace")

    def close(self, because="was closed"):
        """No other thread uses the engine. What it stored is forgotten. Again is allowed."""
        if self.handle is None:
            return
        self._final = self.statistics()
        self._leave_summary()
        handle, self.handle, self.gone_because = self.handle, None, because
        self.library.close(handle)

    def _leave_summary(self):
        """One JSON line for `terrace run --summary`, which names the file."""
        file = os.environ.get("TERRACE_OFFLOAD_SUMMARY")
        if not file:
            return
        line = json.dumps({"pid": os.getpid(), "device": self.device, "path": self.path, **self._final})
        try:
            with open(file, "a", encoding="utf-8") as summary:
                summary.write(line + "\n")
        except OSError:
            pass  # the summary is a convenience; the launcher says that it is missing

    def __del__(self):
        if getattr(self, "handle", None) is not None:
            self.close()


def _forget_in_child():
    for engine in list(_engines):
        engine.handle, engine.gone_because = None, "belongs to the parent process; this is a forked child"


def _close_at_exit():
    for engine in list(_engines):
        engine.close("was closed when the program ended")


os.register_at_fork(after_in_child=_forget_in_child)
atexit.register(_close_at_exit)
