#include "liballoc/gpu/heap/heap.h"

#include <cerrno>
#include <map>
#include <random>
#include <thread>

#include "tests/liballoc/gpu/heap/heap_fixture.h"

namespace terrace::liballoc::gpu {

using test::HeapFixture;
using test::kib;
using test::mib;

TEST_CASE("A block freed in a stream is that stream's at once, without a word to the device") {
  HeapFixture f;
  std::byte* a = f.allocate(5 * mib, f.one);
  f.free(a, f.one);
  const auto calls = f.device.calls;
  CHECK(f.allocate(5 * mib, f.one) == a);
  CHECK(f.device.calls == calls);
  f.check();
}

TEST_CASE("Another stream takes a freed block behind the event of the free, and the host does not wait") {
  HeapFixture f(4);
  std::byte* mine = f.allocate(1 * mib, f.two);  // two streams are known
  std::byte* a = f.allocate(6 * mib, f.one);
  f.free(a, f.one);
  const std::uint64_t at_free = test::told(f.one)->position;
  test::told(f.one)->position += 10;  // work after the free, for which nobody waits
  CHECK(f.allocate(6 * mib, f.two) == a);
  REQUIRE(f.device.waits.size() == 1);
  CHECK(f.device.waits[0].stream == f.two);
  CHECK(f.device.waits[0].for_stream == f.one);
  CHECK(f.device.waits[0].position == at_free);
  const auto s = f.heap.statistics();
  CHECK(s.stream_waits == 1);
  CHECK(s.host_waits == 0);
  CHECK(f.device.calls["synchronize"] == 0);
  f.free(mine, f.two);
  f.check();
}

TEST_CASE("A thread takes what another freed in its own default stream behind the event of the free") {
  HeapFixture f(4);
  const auto own = tiers::gpu::stream_of_this_thread;
  std::byte* a = nullptr;
  std::thread([&] {
    a = f.allocate(8 * mib, own);
    f.free(a, own);
  }).join();
  CHECK(f.allocate(8 * mib, own) == a);
  REQUIRE(f.device.waits.size() == 1);
  CHECK(f.heap.statistics().stream_waits == 1);
  f.free(a, own);
  f.allocate(8 * mib, own);  // its own is its own at once
  CHECK(f.device.waits.size() == 1);
}

TEST_CASE("A stream at the address of one that was destroyed takes its memory behind its last event") {
  HeapFixture f(4);
  std::byte* a = f.allocate(8 * mib, f.one);
  f.free(a, f.one);
  f.heap.end_stream(f.one);
  f.heap.end_stream(f.two);  // nothing of it is known
  CHECK(f.allocate(8 * mib, f.one) == a);
  CHECK(f.device.waits.size() == 1);
}

TEST_CASE("Another stream takes a block whose event has passed without waiting") {
  HeapFixture f(4);
  f.allocate(1 * mib, f.two);
  std::byte* a = f.allocate(6 * mib, f.one);
  f.free(a, f.one);
  f.device.pass(f.one);
  CHECK(f.allocate(6 * mib, f.two) == a);
  CHECK(f.device.waits.empty());
  CHECK(f.heap.statistics().stream_waits == 0);
}

TEST_CASE("A block that another stream recorded is not reused before that stream has passed") {
  HeapFixture f;
  std::byte* a = f.allocate(4 * mib, f.one);
  REQUIRE(f.heap.record_stream(a, f.two) == 0);
  f.free(a, f.one);
  std::byte* b = f.allocate(4 * mib, f.one);
  CHECK(b != a);
  f.device.pass(f.two);
  CHECK(f.allocate(4 * mib, f.one) == a);
  CHECK(f.heap.record_stream(a + 512, f.two) == EINVAL);
  f.check();
}

TEST_CASE("A block that a thread recorded for its own stream is not another thread's") {
  HeapFixture f;
  const auto own = tiers::gpu::stream_of_this_thread;
  std::byte* a = f.allocate(4 * mib, f.one);
  std::thread([&] { REQUIRE(f.heap.record_stream(a, own) == 0); }).join();
  std::thread([&] { f.free(a, own); }).join();
  f.device.pass(own);
  CHECK(f.allocate(4 * mib, f.one) != a);
  f.device.pass(nullptr);  // which is behind the first thread's own
  CHECK(f.allocate(4 * mib, f.one) == a);
  f.check();
}

TEST_CASE("Frames move from free ranges that have passed into one that lacks them") {
  HeapFixture f(8);
  f.device.automatic = true;
  std::byte* blocks[8];
  for (std::byte*& block : blocks) block = f.allocate(2 * mib, f.one);
  for (int i = 0; i < 8; i += 2) f.free(blocks[i], f.one);
  std::byte* large = f.allocate(8 * mib, f.one);  // no hole is larger than 2 MiB
  HeapFixture::fill(large, 8 * mib, 5);
  CHECK(HeapFixture::filled(large, 8 * mib, 5));
  const auto s = f.heap.statistics();
  CHECK(s.frames_created == 8);
  CHECK(s.frames_moved == 4);
  CHECK(f.device.frames_alive == 8);
  f.check();
}

TEST_CASE(
    "A frame whose last use has not passed is not moved; under pressure the host waits for that event "
    "alone") {
  HeapFixture f(4);
  std::byte* a = f.allocate(2 * mib, f.one);
  f.allocate(2 * mib, f.one);
  std::byte* c = f.allocate(2 * mib, f.one);
  f.allocate(2 * mib, f.one);
  f.free(a, f.one);
  f.free(c, f.one);
  CHECK(f.device.calls["unmap"] == 0);
  f.allocate(4 * mib, f.one);
  CHECK(f.heap.statistics().host_waits > 0);
  CHECK(f.device.calls["synchronize"] == f.heap.statistics().host_waits);
  CHECK(f.heap.statistics().frames_moved == 2);
  f.check();
}

TEST_CASE("The budget is met, refused beyond, and can be changed while it is not in use") {
  HeapFixture f(16, 8 * mib);
  std::byte* a = f.allocate(5 * mib, f.one);
  CHECK(f.allocation_error(5 * mib, f.one) == ENOMEM);
  CHECK(f.allocation_error(9 * mib, f.one) == ENOMEM);
  CHECK(f.heap.statistics().failures == 2);
  CHECK(f.device.frames_alive <= 4);
  CHECK(f.heap.set_budget(2 * mib) == EBUSY);
  CHECK(f.heap.set_budget(64 * mib) == EINVAL);
  CHECK(f.heap.set_budget(mib) == EINVAL);
  CHECK(f.heap.set_budget_share(0.5) == 0);
  CHECK(f.heap.statistics().budget_bytes == 16 * mib);
  f.allocate(5 * mib, f.one);
  f.free(a, f.one);
  CHECK(f.heap.set_budget(8 * mib) == 0);
  CHECK(f.device.frames_alive <= 4);
  f.check();
  test::ToldDevice device(4);
  CHECK(Heap(device).open(mib) == EINVAL);
  CHECK(Heap(device).open(10 * mib) == EINVAL);
}

TEST_CASE("Frames that no block uses are given back, and the heap's end leaves nothing behind") {
  test::ToldDevice device(16);
  device.automatic = true;
  {
    Heap heap(device);
    REQUIRE(heap.open(0) == 0);
    void *a = nullptr, *b = nullptr, *c = nullptr;
    REQUIRE(heap.allocate(6 * mib, nullptr, &a) == 0);
    REQUIRE(heap.allocate(4 * mib, nullptr, &b) == 0);
    REQUIRE(heap.allocate(100, nullptr, &c) == 0);
    REQUIRE(heap.free(a, nullptr) == 0);
    for (std::uint32_t i = 0; i < StreamClocks::batch; ++i) {  // the event that covers the free
      void* d = nullptr;
      REQUIRE(heap.allocate(100, nullptr, &d) == 0);
      REQUIRE(heap.free(d, nullptr) == 0);
    }
    REQUIRE(heap.give_back() == 0);
    CHECK(device.frames_alive == 3);
    CHECK(heap.statistics().reserved_bytes == 6 * mib);
    CHECK(heap.check_invariants().empty());
  }
  CHECK(device.frames_alive == 0);
  CHECK(device.mapped == 0);
  CHECK(device.events_alive == 0);
}

TEST_CASE("Errors of the device become errors of the call, and nothing is lost") {
  HeapFixture f(8);
  f.device.fail("map", 1, EIO);
  void* out = &f;
  CHECK(f.heap.allocate(4 * mib, f.one, &out) == EIO);
  CHECK(out == &f);
  f.check();
  f.device.fail("create_frame", 2, ENODEV);
  CHECK(f.heap.allocate(8 * mib, f.one, &out) == ENODEV);
  f.check();
  CHECK(f.allocation_error(8 * mib, f.one) == 0);
  std::byte* a = f.allocate(2 * mib, f.one);
  CHECK(f.heap.free(a + 512, f.one) == EINVAL);
  CHECK(f.heap.free(&f, f.one) == EINVAL);
  f.free(a, f.one);
  CHECK(f.heap.free(a, f.one) == EINVAL);
  CHECK(f.heap.allocate(0, f.one, &out) == EINVAL);
  CHECK(f.heap.allocate(~std::uint64_t{0}, f.one, &out) == ENOMEM);
  f.check();
}

TEST_CASE("Random allocations on three streams keep their bytes and the books") {
  HeapFixture f(64);
  struct Live {
    std::uint64_t bytes;
    unsigned seed;
  };
  std::map<std::byte*, Live> live;
  std::mt19937_64 random(11);
  const tiers::gpu::Stream streams[] = {f.one, f.two, nullptr};
  unsigned refused = 0;
  for (unsigned i = 0; i < 6'000; ++i) {
    const tiers::gpu::Stream stream = streams[random() % 3];
    if (random() % 7 == 0) f.device.pass(stream);
    if (random() % 100 < 52) {
      const std::uint64_t bytes = 1 + random() % (random() % 4 == 0 ? 12 * mib : 300 * kib);
      void* block = nullptr;
      const int error = f.heap.allocate(bytes, stream, &block);
      refused += error != 0 ? 1 : 0;
      if (error != 0) continue;
      auto* at = static_cast<std::byte*>(block);
      const auto after = live.lower_bound(at);
      REQUIRE((after == live.end() || after->first >= at + bytes));
      if (after != live.begin()) REQUIRE(std::prev(after)->first + std::prev(after)->second.bytes <= at);
      HeapFixture::fill(at, bytes, i);
      live[at] = {bytes, i};
    } else if (!live.empty()) {
      auto victim = std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
      REQUIRE(HeapFixture::filled(victim->first, victim->second.bytes, victim->second.seed));
      if (random() % 5 == 0) REQUIRE(f.heap.record_stream(victim->first, streams[random() % 3]) == 0);
      f.free(victim->first, stream);
      live.erase(victim);
    }
    if (i % 50 == 0) f.check();
  }
  CHECK(refused > 0);  // the budget was reached
  for (const auto& [block, l] : live) {
    REQUIRE(HeapFixture::filled(block, l.bytes, l.seed));
    f.free(block, f.one);
  }
  CHECK(f.heap.statistics().allocated_bytes == 0);
  f.check();
}

TEST_CASE("Threads share a heap") {
  test::ToldDevice device(64);
  device.automatic = true;
  Heap heap(device);
  REQUIRE(heap.open(0) == 0);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned i = 0; i < 2'000; ++i) {
        void* block = nullptr;
        if (heap.allocate(std::uint64_t{1 + (i * 37 + t) % 700} * 8 * kib, nullptr, &block) != 0) continue;
        std::memcpy(block, &i, sizeof(i));
        if (std::memcmp(block, &i, sizeof(i)) != 0) ++wrong[t];
        if (heap.free(block, nullptr) != 0) ++wrong[t];
        if (i % 100 == 0) heap.statistics();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4));
  CHECK(heap.statistics().allocated_bytes == 0);
  CHECK(heap.check_invariants().empty());
}

}  // namespace terrace::liballoc::gpu
