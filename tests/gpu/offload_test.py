#!/usr/bin/env python3
"""The offload engine and terrace.torch on a GPU: what only there can go wrong.

Kernels run beside the copies, so what the tests look for are copies that begin before the kernel that makes a
tensor has ended, memory that is used again before its copy is over, and a computation that reads before its
tensor has arrived. TERRACE_TEST_GPU=emulated:1G runs the same cases on the emulated device. SKIP without a GPU.
"""
import ctypes
import os
import sys
import time
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "liballoc/python"), str(SOURCE / "tools/bench/gpu"), str(SOURCE / "tools/bench")]
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
GPU = os.environ.get("TERRACE_TEST_GPU", "cuda")
POOL = os.environ.get("TERRACE_TEST_POOL_DIR", "/var/tmp")


def skip(reason):
    print(f"SKIP: {reason}")
    sys.exit(77)


try:
    import torch
except ImportError as error:
    skip(f"{sys.executable} has no PyTorch ({error})")
if GPU.startswith("cuda") and not torch.cuda.is_available():
    skip(f"PyTorch {torch.__version__} of {sys.executable} sees no CUDA GPU")

import networks
import terrace.torch
from place import parse_place
from terrace import library

try:
    LIBRARY = library.load()
except library.LibraryError as error:
    skip(error.strerror)

PLACE = parse_place(GPU)
DEVICE = torch.device(PLACE.torch_device)
MIB = 1 << 20
CODECS = ("off", "auto", "zvc", "zvc_exp", "rle", "csr8")


def stream():
    return torch.cuda.current_stream(DEVICE).cuda_stream if PLACE.is_cuda else None


class Engine:
    """The C API as it is, so that the package's own care hides nothing."""

    def __init__(self, dram_bytes=256 * MIB, nvme_bytes=0, compress=b"off", staging_bytes=0,
                 read_ahead_bytes=0):
        config = library.Config(size=ctypes.sizeof(library.Config), device=GPU.encode(), dram_bytes=dram_bytes,
                                nvme_bytes=nvme_bytes, nvme_directory=POOL.encode(), compress=compress,
                                read_ahead_bytes=read_ahead_bytes, staging_bytes=staging_bytes)
        self.handle, reason = ctypes.c_void_p(), ctypes.create_string_buffer(1024)
        code = LIBRARY.open(ctypes.byref(config), ctypes.byref(self.handle), reason, 1024)
        if code != 0:
            raise OSError(-code, reason.value.decode())

    def store(self, tensor, element=library.ELEMENT_F32):
        number = ctypes.c_uint64()
        what = library.Tensor(size=ctypes.sizeof(library.Tensor), data=tensor.data_ptr(),
                              bytes=tensor.numel() * tensor.element_size(), element=element, site=1)
        self.check(LIBRARY.store(self.handle, ctypes.byref(what), stream(), ctypes.byref(number)))
        return number.value

    def wait_until_left(self, number):
        while LIBRARY.left(self.handle, number) == 0:
            pass
        self.check(LIBRARY.left(self.handle, number))

    def bring(self, number, to):
        self.check(LIBRARY.fetch(self.handle, number, to.data_ptr(), stream()))
        self.check(LIBRARY.arrive(self.handle, number, stream()))

    def release(self, number):
        self.check(LIBRARY.release(self.handle, number, stream()))

    def statistics(self):
        counts = library.Statistics(size=ctypes.sizeof(library.Statistics))
        self.check(LIBRARY.get_statistics(self.handle, ctypes.byref(counts)))
        return counts

    def check(self, code):
        if code < 0:
            raise OSError(-code, os.strerror(-code))

    def close(self):
        LIBRARY.close(self.handle)


def busy():
    """Keeps the current stream busy for a while, so that what follows in it has not run when the host goes on."""
    if PLACE.is_cuda:
        torch.cuda._sleep(20_000_000)


class OfEngine(unittest.TestCase):
    def engine(self, **settings):
        engine = Engine(**settings)
        self.addCleanup(engine.close)
        return engine

    def test_a_store_waits_for_the_kernel_that_makes_the_tensor(self):
        engine = self.engine()
        tensor = torch.zeros(MIB, device=DEVICE)
        busy()
        tensor.fill_(3.0)
        number = engine.store(tensor)
        engine.wait_until_left(number)
        tensor.fill_(-1.0)
        back = torch.empty_like(tensor)
        engine.bring(number, back)
        self.assertTrue(bool((back == 3.0).all()))

    def test_memory_that_left_may_be_written_at_once(self):
        engine = self.engine()
        numbers = []
        tensor = torch.empty(4 * MIB, device=DEVICE)
        for value in range(8):  # the same memory again and again
            tensor.fill_(value)
            numbers.append(engine.store(tensor))
            engine.wait_until_left(numbers[-1])
        for value, number in enumerate(numbers):
            engine.bring(number, tensor)
            self.assertTrue(bool((tensor == value).all()), value)

    def test_what_host_memory_does_not_hold_takes_the_path_that_is_named(self):
        for codec in ("off", "zvc"):
            engine = self.engine(dram_bytes=16 * MIB, nvme_bytes=256 * MIB, compress=codec.encode(),
                                 staging_bytes=32 * MIB)
            path = LIBRARY.path(engine.handle).decode()
            stored = torch.relu(torch.randn(5 * MIB, device=DEVICE))
            target = torch.empty_like(stored)
            number = engine.store(stored)
            engine.wait_until_left(number)
            engine.bring(number, target)
            self.assertTrue(torch.equal(stored, target), path)
            self.assertEqual(engine.statistics().direct_bytes > 0, ", GPUDirect Storage to " in path, path)

    def test_what_went_directly_is_read_ahead_in_the_learned_order(self):
        engine = self.engine(dram_bytes=16 * MIB, nvme_bytes=256 * MIB, staging_bytes=32 * MIB,
                             read_ahead_bytes=12 * MIB)
        path = LIBRARY.path(engine.handle).decode()
        stored = [torch.randn(mib * MIB // 4, device=DEVICE) for mib in (10, 8)]  # there is room for the first
        for _ in range(2):
            numbers = []
            for tensor in stored:
                numbers.append(engine.store(tensor))
                engine.wait_until_left(numbers[-1])
            for tensor, number in zip(stored, numbers):
                target = torch.empty_like(tensor)
                engine.bring(number, target)
                self.assertTrue(torch.equal(tensor, target), path)
                engine.release(number)
            engine.check(LIBRARY.end_step(engine.handle))
        self.assertEqual(engine.statistics().read_ahead_hits, int(", GPUDirect Storage to " in path), path)

    def test_a_fetch_waits_for_what_still_reads_its_memory(self):
        engine = self.engine()
        stored = torch.full((MIB,), 5.0, device=DEVICE)
        number = engine.store(stored)
        engine.wait_until_left(number)
        target = torch.full((MIB,), 1.0, device=DEVICE)
        busy()
        seen = target + 0  # reads the target, after a while
        engine.bring(number, target)
        self.assertTrue(bool((seen == 1.0).all()))
        self.assertTrue(bool((target == 5.0).all()))

    def test_a_fetch_before_it_left_is_the_same_bytes(self):
        engine = self.engine()
        tensor = torch.randn(8 * MIB, device=DEVICE)
        number = engine.store(tensor)
        back = torch.empty_like(tensor)
        engine.bring(number, back)
        self.assertTrue(torch.equal(tensor, back))

    def test_odd_sizes_come_back_through_every_codec(self):
        for compress in CODECS:
            engine = self.engine(compress=compress.encode())
            for count in (1, 3, 1023, 4097, MIB + 1, 5 * MIB - 7):
                tensor = torch.relu(torch.randn(count, device=DEVICE))
                number = engine.store(tensor)
                engine.wait_until_left(number)
                back = torch.full_like(tensor, -1.0)
                engine.bring(number, back)
                self.assertTrue(torch.equal(tensor, back), (compress, count))
                engine.release(number)

    def test_a_frame_waits_for_the_kernel_that_makes_the_tensor(self):
        engine = self.engine(compress=b"zvc")
        tensor = torch.zeros(MIB, device=DEVICE)
        busy()
        tensor[::4] = 3.0
        number = engine.store(tensor)
        engine.wait_until_left(number)
        expected = tensor.clone()
        tensor.fill_(-1.0)
        back = torch.empty_like(tensor)
        engine.bring(number, back)
        self.assertTrue(torch.equal(back, expected))
        self.assertEqual(engine.statistics().compressed_bytes, 4 * MIB)

    def test_a_frame_is_decoded_behind_what_still_reads_its_memory(self):
        engine = self.engine(compress=b"zvc")
        stored = torch.zeros(MIB, device=DEVICE)
        stored[::4] = 5.0
        number = engine.store(stored)
        engine.wait_until_left(number)
        target = torch.full((MIB,), 1.0, device=DEVICE)
        busy()
        seen = target + 0  # reads the target, after a while
        engine.bring(number, target)
        self.assertTrue(bool((seen == 1.0).all()))
        self.assertTrue(torch.equal(target, stored))

    def test_many_frames_share_a_small_staging_with_kernels_at_work(self):
        engine = self.engine(compress=b"zvc", staging_bytes=8 * MIB)
        sources = [torch.relu(torch.randn(MIB // 2 + i, device=DEVICE)) for i in range(32)]
        tensors = [source.clone() for source in sources]
        numbers = [engine.store(source) for source in sources]
        for source, number in zip(sources, numbers):
            engine.wait_until_left(number)
            source.fill_(-1.0)
        for tensor, number in list(zip(tensors, numbers))[::-1]:
            back = torch.empty_like(tensor)
            engine.bring(number, back)
            self.assertTrue(torch.equal(tensor, back))
            engine.release(number)
        counts = engine.statistics()
        self.assertEqual(counts.not_staged, 0)
        self.assertLess(counts.frame_bytes, counts.compressed_bytes)

    def test_more_than_host_memory_comes_back_from_the_drive(self):
        engine = self.engine(dram_bytes=32 * MIB, nvme_bytes=512 * MIB)
        tensors = [torch.randn(MIB, device=DEVICE) for _ in range(48)]  # 192 MiB
        numbers = [engine.store(tensor) for tensor in tensors]
        for number in numbers:
            engine.wait_until_left(number)
        for tensor, number in list(zip(tensors, numbers))[::-1]:
            back = torch.empty_like(tensor)
            engine.bring(number, back)
            self.assertTrue(torch.equal(tensor, back))

    def test_a_tensor_larger_than_host_memory_comes_back_from_the_drive(self):
        engine = self.engine(dram_bytes=16 * MIB, nvme_bytes=256 * MIB)
        tensor = torch.zeros(10 * MIB, device=DEVICE)  # 40 MiB
        busy()
        tensor.copy_(torch.arange(10 * MIB, device=DEVICE))
        number = engine.store(tensor)
        engine.wait_until_left(number)
        expected, back = tensor.clone(), torch.empty_like(tensor)
        tensor.fill_(-1.0)
        busy()
        engine.bring(number, back)
        self.assertTrue(torch.equal(expected, back))

    @unittest.skipUnless(PLACE.is_cuda, "streams of a GPU")
    def test_two_streams_keep_their_order(self):
        engine = self.engine()
        other = torch.cuda.Stream(DEVICE)
        tensor = torch.zeros(4 * MIB, device=DEVICE)
        torch.cuda.synchronize(DEVICE)
        with torch.cuda.stream(other):
            busy()
            tensor.fill_(7.0)
            number = engine.store(tensor)
        engine.wait_until_left(number)
        back = torch.empty_like(tensor)
        engine.bring(number, back)
        self.assertTrue(bool((back == 7.0).all()))

    @unittest.skipUnless(PLACE.is_cuda, "graphs of a GPU")
    def test_a_graph_is_captured_while_tensors_leave(self):
        engine = self.engine(dram_bytes=1024 * MIB)
        graph, aside = torch.cuda.CUDAGraph(), torch.cuda.Stream(DEVICE)
        x = torch.arange(MIB, dtype=torch.float32, device=DEVICE)
        torch.cuda.synchronize(DEVICE)
        busy()
        tensors = [torch.full((16 * MIB,), float(value), device=DEVICE) for value in range(8)]
        numbers = [engine.store(tensor) for tensor in tensors]  # memory is page-locked for them
        with torch.cuda.stream(aside):
            graph.capture_begin()  # in global mode: an unsafe call of any thread would end it
            y = x * 2 + 1
            time.sleep(0.5)
            graph.capture_end()
        graph.replay()
        self.assertTrue(torch.equal(y, x * 2 + 1))
        for value, number in enumerate(numbers):
            engine.wait_until_left(number)
            engine.bring(number, tensors[0])
            self.assertTrue(bool((tensors[0] == value).all()), value)


NETWORK = {"kind": "blocks", "width": 128, "length": 4096, "depth": 8, "batch": 1, "dtype": "float32", "seed": 5}


def train(steps=4, autocast=False, **settings):
    """(losses, hash of the parameters, statistics of the offload); no settings: nothing is offloaded."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    model, inputs, optimizer = networks.build(NETWORK, DEVICE)
    offload = terrace.torch.offload(device=GPU, limit=None, **settings) if settings else None
    losses = []
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(DEVICE.type, dtype=torch.bfloat16, enabled=autocast):
            if offload:
                with offload:
                    output = model(inputs)
            else:
                output = model(inputs)
        loss = networks.loss_of(output)
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())
    counters = offload.statistics() if offload else {}
    if offload:
        offload.close()
    return losses, networks.state_hash(model), counters


class OfTraining(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.plain = train()[:2]

    def same(self, **settings):
        losses, digest, counters = train(**settings)
        self.assertEqual((losses, digest), self.plain, settings)
        self.assertGreater(counters["stored"], 0)

    def test_plain_repeats_itself(self):
        self.assertEqual(train()[:2], self.plain)

    def test_host_memory(self):
        self.same(budget="1G", compress="off")

    def test_the_drive(self):
        self.same(budget="32M", tiers=("dram", "nvme"), directory=POOL, nvme_bytes="1G", compress="off")

    def test_every_codec(self):
        for codec in CODECS:
            self.same(budget="1G", compress=codec)

    def test_nothing_kept_at_the_end(self):
        self.same(budget="1G", compress="off", keep_last=0)

    def test_autocast(self):
        self.assertEqual(train(autocast=True, budget="1G", compress="off")[:2], train(autocast=True)[:2])

    @unittest.skipUnless(PLACE.is_cuda, "PyTorch's statistics of GPU memory")
    def test_two_hundred_steps_do_not_grow(self):
        train(steps=20, budget="1G", compress="off")
        before = torch.cuda.memory_allocated(DEVICE)
        train(steps=200, budget="1G", compress="off")
        self.assertEqual(torch.cuda.memory_allocated(DEVICE), before)


if __name__ == "__main__":
    unittest.main()
