"""How fast the offload engine moves tensors, through the C API that the Python package uses (terrace_gpu.h).

Out: all tensors are stored, and the clock stops when the memory of the last may be used again. Back: all are
fetched in the reverse order, as a backward pass does, and the clock stops when the last has arrived. Both: a store
and a fetch in turn. No codec: what it would save is not the link's doing. What came back is compared.
"""
import ctypes
import errno
import time

import torch
from terrace import library

from link_speed import settle

REASON_BYTES = 1024
PATIENCE_SECONDS = 60


class EngineFailed(RuntimeError):
    pass


class EngineSpeed:
    """A context. `pool_directory` None: host memory alone."""

    def __init__(self, place, tensors, dram_bytes, nvme_bytes=0, pool_directory=None):
        self._place, self._tensors = place, tensors
        self._back = [torch.zeros_like(tensor) for tensor in tensors]
        self._library = library.load()
        self._handle = self._open(dram_bytes, nvme_bytes, pool_directory)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._library.close(self._handle)

    def path(self):
        return self._library.path(self._handle).decode()

    def rates(self, both=True):
        """{"to_host", "to_device", "both"}: bytes a second. Raises EngineFailed, also when other bytes come back."""
        total = sum(tensor.numel() for tensor in self._tensors)
        ids, out = self._timed(self._store_all)
        _, back = self._timed(lambda: self._fetch_all(ids))
        self._compare()
        self._release(ids)
        rates = {"to_host": total / out, "to_device": total / back}
        return rates | {"both": self._both_rate(2 * total)} if both else rates

    def _both_rate(self, total):
        first = self._store_all()
        second, seconds = self._timed(lambda: self._both(first))
        self._release(first + second)
        return total / seconds

    def statistics(self):
        counters = library.Statistics(size=ctypes.sizeof(library.Statistics))
        self._check("get_statistics", self._library.get_statistics(self._handle, ctypes.byref(counters)))
        return {name: getattr(counters, name) for name, _ in library.Statistics._fields_[1:]}

    def _timed(self, action):
        settle(self._place)
        start = time.perf_counter()
        result = action()
        settle(self._place)
        return result, time.perf_counter() - start

    def _store_all(self):
        """What finds host memory full because the drive still writes is stored again, as often as that takes."""
        ids, pending = {}, list(range(len(self._tensors)))
        deadline = time.monotonic() + PATIENCE_SECONDS
        while pending:
            started = {number: self._store(self._tensors[number]) for number in pending}
            pending = [number for number, stored in started.items() if not self._has_left(stored)]
            ids |= {number: stored for number, stored in started.items() if number not in pending}
            if pending:
                time.sleep(0.0005)
            if time.monotonic() > deadline:
                raise EngineFailed(f"no room for {len(pending)} tensors in {PATIENCE_SECONDS} s")
        return [ids[number] for number in range(len(self._tensors))]

    def _fetch_all(self, ids):
        order = list(zip(ids, self._back))[::-1]
        for number, to in order:
            self._fetch(number, to)
        for number, _ in order:
            self._check("arrive", self._library.arrive(self._handle, number, self._stream()))

    def _both(self, stored):
        ids = []
        for tensor, number, to in zip(self._tensors, stored[::-1], self._back[::-1]):
            ids.append(self._store(tensor))
            self._fetch(number, to)
        for number in stored:
            self._check("arrive", self._library.arrive(self._handle, number, self._stream()))
        if not all(self._has_left(number) for number in ids):
            raise EngineFailed("host memory is too small for both ways at once")
        return ids

    def _store(self, tensor):
        """The number; None when there is no room."""
        number = ctypes.c_uint64()
        what = library.Tensor(size=ctypes.sizeof(library.Tensor), data=tensor.data_ptr(), bytes=tensor.numel(),
                              element=library.ELEMENT_U8, site=0)
        code = self._library.store(self._handle, ctypes.byref(what), self._stream(), ctypes.byref(number))
        if code == -errno.ENOSPC:
            return None
        self._check("store", code)
        return number.value

    def _fetch(self, number, to):
        self._check("fetch", self._library.fetch(self._handle, number, to.data_ptr(), self._stream()))

    def _has_left(self, number):
        """Waits; False when it stayed, for want of room, and was released."""
        if number is None:
            return False
        while (left := self._library.left(self._handle, number)) == 0:
            time.sleep(0.0002)
        if left == -errno.ENOSPC:
            self._check("release", self._library.release(self._handle, number, self._stream()))
            return False
        self._check("left", min(left, 0))
        return True

    def _release(self, ids):
        for number in ids:
            self._check("release", self._library.release(self._handle, number, self._stream()))
        self._check("end_step", self._library.end_step(self._handle))

    def _compare(self):
        if not all(torch.equal(*pair) for pair in zip(self._tensors, self._back)):
            raise EngineFailed("other bytes came back than were stored")

    def _stream(self):
        return torch.cuda.current_stream(self._place.index).cuda_stream if self._place.is_cuda else None

    def _check(self, what, code):
        if code < 0:
            raise EngineFailed(f"terrace_offload_{what}: {library.error_name(code)}")

    def _open(self, dram_bytes, nvme_bytes, directory):
        config = library.Config(size=ctypes.sizeof(library.Config), device=self._place.spec.encode(),
                                dram_bytes=dram_bytes, nvme_bytes=nvme_bytes, compress=b"off",
                                nvme_directory=str(directory).encode() if directory else None)
        handle, reason = ctypes.c_void_p(), ctypes.create_string_buffer(REASON_BYTES)
        code = self._library.open(ctypes.byref(config), ctypes.byref(handle), reason, REASON_BYTES)
        if code < 0:
            raise EngineFailed(f"{library.error_name(code)}: {reason.value.decode(errors='replace')}")
        return handle.value
