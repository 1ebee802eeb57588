"""The offload functions of terrace_gpu.h in Python, for tests that need an engine in an exact state.

A tensor leaves when the test lets it (`hold`), a call fails when the test says so (`errors`), and `calls` tells
what was asked for. Bytes are copied when a tensor leaves, so what is still on its way sees changes of its source
as a real engine would. Each open() makes an engine of its own, with its own tensors: a test may have several
sessions.
"""
import ctypes
import errno
import itertools

from terrace import library


class Stored:
    def __init__(self, handle, pointer, nbytes, element, site, number):
        self.handle = handle
        self.pointer, self.nbytes, self.element, self.site, self.number = pointer, nbytes, element, site, number
        self.content = None
        self.fetched = False


class ReferenceLibrary:
    def __init__(self, hold=False):
        self.hold = hold
        self.orders = True  # False: leave() cannot queue a copy yet
        self.errors = {}  # name of a function: errno it fails with
        self.calls = []
        self.tensors = {}
        self.configuration = None
        self.counts = dict.fromkeys((name for name, _ in library.Statistics._fields_[1:]), 0)
        self._numbers, self._handles = itertools.count(1), itertools.count(1)
        self.file = "reference"

    def let_leave(self):
        for stored in self.tensors.values():
            stored.content = stored.content or ctypes.string_at(stored.pointer, stored.nbytes)

    def open(self, config, handle, reason, reason_bytes):
        source = config._obj
        self.configuration = {name: getattr(source, name) for name, _ in source._fields_}
        if "open" in self.errors:
            reason.value = b"the reference engine was told to refuse"
            return -self.errors["open"]
        handle._obj.value = next(self._handles)
        return 0

    def close(self, handle):
        self.calls.append(("close",))
        self._forget(handle)

    def _forget(self, handle):
        """What one engine has; how many that were."""
        gone = [number for number, stored in self.tensors.copy().items() if stored.handle == handle]
        for number in gone:
            self.tensors.pop(number, None)
        return len(gone)

    def path(self, handle):
        return b"reference"

    def warning(self, handle):
        return b""

    def store(self, handle, tensor, stream, number):
        wanted = tensor.contents
        self.calls.append(("store", wanted.bytes, wanted.element, wanted.site))
        if "store" in self.errors:
            return -self.errors["store"]
        stored = Stored(handle, wanted.data, wanted.bytes, wanted.element, wanted.site, next(self._numbers))
        self.tensors[stored.number] = stored
        number.contents.value = stored.number
        if not self.hold:
            self.let_leave()
        self.counts["stored"] += 1
        return 0

    def store_left(self, handle, tensor, stream, number):
        code = self.store(handle, tensor, stream, number)
        return code or int(not self.hold and "left" not in self.errors)

    def left(self, handle, number):
        if number not in self.tensors:
            return -errno.ENOENT
        if "left" in self.errors:
            return -self.errors["left"]
        return 1 if self.tensors[number].content is not None else 0

    def leave(self, handle, number, stream):
        """`hold` is a host far ahead of its device: what comes behind the copy in the stream is still to be run."""
        self.calls.append(("leave", number, stream))
        code = self.left(handle, number)
        if code != 0 or not self.orders:
            return code
        stored = self.tensors[number]
        stored.content = ctypes.string_at(stored.pointer, stored.nbytes)
        return 1

    def fetch(self, handle, number, to, stream):
        self.calls.append(("fetch", number))
        if number not in self.tensors:
            return -errno.ENOENT
        if "fetch" in self.errors:
            return -self.errors["fetch"]
        stored = self.tensors[number]
        stored.fetched = True
        self.counts["fetched"] += 1
        ctypes.memmove(to, stored.content, stored.nbytes)
        return 0

    def arrive(self, handle, number, stream):
        if number not in self.tensors:
            return -errno.ENOENT
        return -self.errors["arrive"] if "arrive" in self.errors else 0

    def fetch_arrive(self, handle, number, to, stream):
        return self.fetch(handle, number, to, stream) or self.arrive(handle, number, stream)

    def release(self, handle, number, stream):
        self.calls.append(("release", number, stream))
        return 0 if self.tensors.pop(number, None) else -errno.ENOENT

    def end_step(self, handle):
        self.calls.append(("end_step",))
        self.counts["dropped"] += self._forget(handle)
        return 0

    def next_step(self, handle):
        self.calls.append(("next_step",))
        return 0

    def expect(self, handle, number, out, count):
        waiting = [n for n in sorted(self.tensors, reverse=True) if n < (number or 2**63)]
        waiting = [n for n in waiting if self.tensors[n].handle == handle and not self.tensors[n].fetched][:count]
        for index, each in enumerate(waiting):
            out[index] = each
        return len(waiting)

    def get_statistics(self, handle, out):
        for name, value in {**self.counts, "live": len(self.tensors)}.items():
            setattr(out._obj, name, value)
        return 0

    def live(self):
        return len(self.tensors)
