"""libterrace_gpu.so through ctypes: where it lies, its offload functions as liballoc/gpu/terrace_gpu.h has them, and
its optimizers' as liballoc/gpu/terrace_optimizer.h has them.

Nothing is compiled against PyTorch, so one package serves every version of it. Every call lets other Python threads
run meanwhile: whoever has the engine's lock may be in the driver, and whoever waited for it with the interpreter's
would stop them all. Where the build has terrace_saves (native/saves.c), beside the library, the calls that each saved
tensor takes go through it; it needs Python's stable ABI alone, and without it ctypes does.

The library is looked for, in this order: TERRACE_GPU_LIBRARY; beside the preload library that `terrace run` put
into LD_PRELOAD; in the lib folders above this package (an installation's prefix, a build tree); where the
dynamic loader looks.
"""
import ctypes
import errno
import importlib.machinery
import importlib.util
import os
import platform
from ctypes import POINTER, c_char_p, c_double, c_int, c_size_t, c_uint, c_uint64, c_void_p
from pathlib import Path

NAME = "libterrace_gpu.so"
NATIVE = "terrace_saves"
REASON_BYTES = 1024

ELEMENT_U8, ELEMENT_U16, ELEMENT_U32, ELEMENT_U64, ELEMENT_F8E4M3, ELEMENT_F8E5M2 = range(6)
ELEMENT_F16, ELEMENT_BF16, ELEMENT_F32, ELEMENT_F64 = range(6, 10)


class Config(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("device", c_char_p), ("dram_bytes", c_uint64), ("nvme_bytes", c_uint64),
                ("nvme_directory", c_char_p), ("compress", c_char_p), ("read_ahead_bytes", c_uint64),
                ("writes_per_day_bytes", c_uint64), ("writes_total_bytes", c_uint64), ("fault", c_char_p),
                ("staging_bytes", c_uint64), ("checksums", c_char_p), ("policy", c_char_p), ("trial", c_char_p)]


class Tensor(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("data", c_void_p), ("bytes", c_uint64), ("element", c_int), ("site", c_uint64)]


class Statistics(ctypes.Structure):
    _fields_ = [("size", c_size_t)] + [(name, c_uint64) for name in (
        "stored", "stored_bytes", "fetched", "fetched_bytes", "dropped", "handed_back", "live", "live_bytes",
        "dram_bytes", "dram_peak_bytes", "dram_content_bytes", "nvme_bytes", "nvme_peak_bytes",
        "nvme_written_bytes", "nvme_read_bytes", "compressed_bytes", "frame_bytes", "compress_ns",
        "decompress_ns", "host_wait_ns", "read_ahead_hits", "read_ahead_wasted", "checksum_failures",
        "io_errors", "writes_today_bytes", "writes_total_bytes", "waiting_bytes", "in_pieces", "not_staged", "direct_bytes",
        "summed_bytes", "plan_in_force", "plans_made", "planned_steps", "plan_departures", "plan_refusals",
        "plan_predicted_ns", "plan_step_ns", "heuristic_step_ns", "plan_wait_ns", "heuristic_wait_ns",
        "dram_limit_bytes")]


PLAN_FOLLOWS, PLAN_MOVES, PLAN_DEPARTED = 1, 2, 4
MOVE_OUT, MOVE_DRIVE, MOVE_GIVE_UP, MOVE_IN = range(4)


class Move(ctypes.Structure):
    _fields_ = [("number", c_uint64), ("what", c_int)]


class OptimizerConfig(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("nvme_bytes", c_uint64), ("nvme_directory", c_char_p), ("staging_bytes", c_uint64),
                ("threads", c_uint), ("writes_per_day_bytes", c_uint64), ("writes_total_bytes", c_uint64),
                ("fault", c_char_p)]


class OptimizerRule(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("kind", c_int), ("flags", c_uint)] + [(name, c_double) for name in (
        "lr", "weight_decay", "beta1", "beta2", "eps", "momentum", "dampening")]


class OptimizerUpdate(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("id", c_uint64), ("parameter", c_void_p), ("gradient", c_void_p),
                ("parameter_type", c_int), ("gradient_type", c_int), ("step", c_uint64),
                ("rule", POINTER(OptimizerRule)), ("done_elements", c_uint64)]


READY = ctypes.CFUNCTYPE(c_int, c_void_p, c_size_t)
DONE = ctypes.CFUNCTYPE(None, c_void_p, c_size_t)


class OptimizerFlow(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("context", c_void_p), ("ready", READY), ("done", DONE)]


class OptimizerStatistics(ctypes.Structure):
    _fields_ = [("size", c_size_t)] + [(name, c_uint64) for name in (
        "parameters", "elements", "steps", "dram_bytes", "staging_bytes", "nvme_bytes", "nvme_read_bytes",
        "nvme_written_bytes", "checksum_failures", "io_errors", "step_ns", "drive_wait_ns", "writes_today_bytes",
        "writes_total_bytes", "dram_limit_bytes")]


ADAM, SGD = range(2)
MAXIMIZE, DECOUPLED, AMSGRAD, NESTEROV, LERP, FUSED_SQUARE = (1 << bit for bit in range(6))


class LibraryError(OSError):
    """libterrace_gpu.so is missing, or not the one that this package was made for."""


# name: (result, arguments)
_ENGINE = c_void_p
_FUNCTIONS = {
    "open": (c_int, [POINTER(Config), POINTER(c_void_p), c_char_p, c_size_t]),
    "close": (None, [_ENGINE]),
    "store": (c_int, [_ENGINE, POINTER(Tensor), c_void_p, POINTER(c_uint64)]),
    "store_left": (c_int, [_ENGINE, POINTER(Tensor), c_void_p, POINTER(c_uint64)]),
    "left": (c_int, [_ENGINE, c_uint64]),
    "leave": (c_int, [_ENGINE, c_uint64, c_void_p]),
    "fetch": (c_int, [_ENGINE, c_uint64, c_void_p, c_void_p]),
    "arrive": (c_int, [_ENGINE, c_uint64, c_void_p]),
    "fetch_arrive": (c_int, [_ENGINE, c_uint64, c_void_p, c_void_p]),
    "release": (c_int, [_ENGINE, c_uint64, c_void_p]),
    "end_step": (c_int, [_ENGINE]),
    "next_step": (c_int, [_ENGINE]),
    "expect": (c_size_t, [_ENGINE, c_uint64, POINTER(c_uint64), c_size_t]),
    "plan_saved": (c_int, [_ENGINE, c_uint64, c_uint64]),
    "plan_wanted": (c_int, [_ENGINE, c_uint64, c_int]),
    "plan_gone": (c_int, [_ENGINE, c_uint64]),
    "plan_back": (c_int, [_ENGINE, c_uint64]),
    "plan_used": (c_int, [_ENGINE, c_uint64, c_uint64]),
    "plan_depart": (c_int, [_ENGINE]),
    "plan_moves": (c_size_t, [_ENGINE, POINTER(Move), c_size_t]),
    "plan_write": (c_int, [_ENGINE, c_uint64]),
    "plan_text": (c_int, [_ENGINE, c_char_p, c_size_t]),
    "get_statistics": (c_int, [_ENGINE, POINTER(Statistics)]),
    "path": (c_char_p, [_ENGINE]),
    "warning": (c_char_p, [_ENGINE]),
}
_REASON = [c_char_p, c_size_t]
_OPTIMIZER_FUNCTIONS = {
    "optimizer_open": (c_int, [POINTER(OptimizerConfig), POINTER(c_void_p), *_REASON]),
    "optimizer_close": (None, [c_void_p]),
    "optimizer_add": (c_int, [c_void_p, c_uint64, c_uint, POINTER(c_uint64), *_REASON]),
    "optimizer_read": (c_int, [c_void_p, c_uint64, POINTER(c_void_p), *_REASON]),
    "optimizer_write": (c_int, [c_void_p, c_uint64, POINTER(c_void_p), *_REASON]),
    "optimizer_step": (c_int, [c_void_p, POINTER(OptimizerUpdate), c_size_t, POINTER(OptimizerFlow),
                                     POINTER(c_size_t), *_REASON]),
    "optimizer_get_statistics": (c_int, [c_void_p, POINTER(OptimizerStatistics)]),
    "optimizer_path": (c_char_p, [c_void_p]),
    "optimizer_warning": (c_char_p, [c_void_p]),
}
# by terrace_saves, where it is: their arguments are numbers
_OF_EACH_TENSOR = ("left", "leave", "fetch", "arrive", "fetch_arrive", "release", "plan_saved", "plan_wanted", "plan_gone",
                   "plan_back")
_SYMBOLS = {**{name: f"terrace_offload_{name}" for name in _FUNCTIONS},
            **{name: f"terrace_{name}" for name in _OPTIMIZER_FUNCTIONS}}


class Library:
    """The functions terrace_offload_* as attributes without that prefix, and terrace_optimizer_* as optimizer_*."""

    __slots__ = ("file", "save", *_SYMBOLS)

    def __init__(self, file):
        self.file = str(file)
        loaded = ctypes.CDLL(self.file)
        for name, (result, arguments) in {**_FUNCTIONS, **_OPTIMIZER_FUNCTIONS}.items():
            try:
                function = getattr(loaded, _SYMBOLS[name])
            except AttributeError:
                raise LibraryError(errno.ENOSYS, f"{self.file} has no {_SYMBOLS[name]}; it belongs to "
                                   "another version of Terrace, install both from one") from None
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)
        self.save = Save(self)
        native_beside = _native_beside(Path(self.file).parent)
        if native_beside is not None:
            self._take(native_beside)

    def _take(self, native):
        self.save = native.save(_address_of(self.store_left))
        for name in _OF_EACH_TENSOR:
            setattr(self, name, native.function(_address_of(getattr(self, name))))


def _address_of(function):
    return ctypes.cast(function, c_void_p).value


class Save:
    """store_left() with plain numbers: the tensor's, 2 × id, and 1 more if it has left; or -errno. Any thread."""

    __slots__ = ("_library", "_slots")

    def __init__(self, loaded):
        self._library = loaded
        self._slots = []  # what a call reads and writes, made once and used again

    def __call__(self, handle, data, nbytes, element, site, stream):
        tensor, tensor_pointer, number, number_pointer = slot = self._slots.pop() if self._slots else self._slot()
        tensor.data, tensor.bytes, tensor.element, tensor.site = data, nbytes, element, site
        code = self._library.store_left(handle, tensor_pointer, stream, number_pointer)
        if code >= 0:
            code |= number.value << 1
        self._slots.append(slot)
        return code

    @staticmethod
    def _slot():
        tensor, number = Tensor(size=ctypes.sizeof(Tensor)), c_uint64()
        return tensor, ctypes.pointer(tensor), number, ctypes.pointer(number)


def _preload_directories():
    for entry in os.environ.get("LD_PRELOAD", "").replace(":", " ").split():
        if os.path.basename(entry).startswith("libterrace") and os.path.isabs(entry):
            yield Path(entry).parent


def _candidates():
    for directory in _preload_directories():
        yield from sorted(directory.glob(NAME + "*"))
    for above in list(Path(os.path.abspath(__file__)).parents)[:6]:  # the first has lib/ in a wheel
        for folder in ("lib", f"lib/{platform.machine()}-linux-gnu", "lib64", "build/release/lib"):
            yield from sorted((above / folder).glob(NAME + "*"))


def _load():
    named = os.environ.get("TERRACE_GPU_LIBRARY")
    if named:
        return _open(named, "as TERRACE_GPU_LIBRARY says")
    for file in _candidates():
        return _open(file, "found beside this package")
    try:
        return Library(NAME + ".0")
    except OSError as error:
        raise LibraryError(errno.ENOENT, f"{NAME} was not found ({error}); build or install Terrace's GPU part, "
                           "or say in TERRACE_GPU_LIBRARY where the file is") from None


def _open(file, how):
    try:
        return Library(file)
    except LibraryError:
        raise
    except OSError as error:
        raise LibraryError(errno.ELIBACC, f"{file}, {how}, cannot be loaded ({error})") from None


_library = None


def _native_beside(folder):
    """The module terrace_saves in `folder` (an installation: in its terrace/), or None: it was not built, or this Python
    cannot load it."""
    file = folder / f"{NATIVE}.abi3.so"
    if not file.is_file():
        file = folder / "terrace" / file.name
    if not file.is_file():
        return None
    loader = importlib.machinery.ExtensionFileLoader(NATIVE, str(file))
    try:
        module = importlib.util.module_from_spec(importlib.util.spec_from_loader(NATIVE, loader))
        loader.exec_module(module)
    except ImportError:
        return None
    return module


def native():
    """terrace_saves, or None. It lies beside the library that load() finds, whichever library is in use."""
    named = os.environ.get("TERRACE_GPU_LIBRARY")
    for file in [Path(named)] if named else _candidates():
        return _native_beside(file.parent)
    return None


def load():
    """The library, loaded at the first call. Any thread. Raises LibraryError."""
    global _library
    if _library is None:
        _library = _load()
    return _library


def error_name(code):
    """ "ENOSPC (No space left on device)" for 28 and -28."""
    code = abs(code)
    return f"{errno.errorcode.get(code, code)} ({os.strerror(code)})"
