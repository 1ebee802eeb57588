// Blocks that leave GPU memory and come back: at every step what fails leaves the bytes where they were.
#include <signal.h>
#include <sys/mman.h>
#include <time.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "liballoc/gpu/heap/host_copy.h"
#include "tests/liballoc/gpu/heap/heap_fixture.h"

namespace terrace::liballoc::gpu {

using test::HeapFixture;
using test::mib;

namespace {

// Holds whoever reads the memory at his first touch of it, until he is let go: by its protection, and a
// handler of the fault that waits.
class HeldReader {
 public:
  HeldReader(void* memory, std::uint64_t bytes) : memory_(memory), bytes_(bytes) {
    latest_ = this;
    struct sigaction action {};
    action.sa_handler = [](int) { latest_->hold(); };
    REQUIRE(sigaction(SIGSEGV, &action, &before_) == 0);
    REQUIRE(mprotect(memory, bytes, PROT_NONE) == 0);
  }
  ~HeldReader() { sigaction(SIGSEGV, &before_, nullptr); }
  HeldReader(const HeldReader&) = delete;
  HeldReader& operator=(const HeldReader&) = delete;

  void await() { pause_until(&is_held_); }
  void let_go() { may_go_ = true; }
  [[nodiscard]] bool memory_was_unmapped() const { return was_unmapped_; }

 private:
  static void pause_until(const std::atomic<bool>* flag) {
    const timespec pause{0, 1'000'000};
    while (!*flag) nanosleep(&pause, nullptr);
  }
  void hold() {
    is_held_ = true;
    pause_until(&may_go_);
    if (mprotect(memory_, bytes_, PROT_READ | PROT_WRITE) == 0) return;
    was_unmapped_ = true;
    mmap(memory_, bytes_, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  }

  static inline HeldReader* latest_ = nullptr;
  void* memory_;
  std::uint64_t bytes_;
  struct sigaction before_ {};
  std::atomic<bool> is_held_{false}, may_go_{false}, was_unmapped_{false};
};

}  // namespace

TEST_CASE("An evicted block's frames are free when its copy has passed, and it comes back to its address") {
  HeapFixture f(8);
  std::byte* a = f.allocate(16 * mib, f.one);
  HeapFixture::fill(a, 16 * mib, 3);
  REQUIRE(f.heap.evict(a, false, f.one) == 0);
  CHECK(f.heap.statistics().evicted_bytes == 16 * mib);
  CHECK(f.heap.evict(a, false, f.one) == EALREADY);
  CHECK(f.heap.statistics().host_waits == 0);
  std::byte* b = f.allocate(16 * mib, f.two);  // under pressure the host waits for the copy
  HeapFixture::fill(b, 16 * mib, 4);
  f.check();
  CHECK(f.heap.restore(a, f.one) == ENOMEM);
  CHECK(f.heap.statistics().evicted_bytes == 16 * mib);
  f.free(b, f.two);
  REQUIRE(f.heap.restore(a, f.one) == 0);
  CHECK(HeapFixture::filled(a, 16 * mib, 3));
  CHECK(f.heap.statistics().evicted_bytes == 0);
  CHECK(f.heap.restore(a, f.one) == EALREADY);
  CHECK(f.heap.evict(a + 512, false, f.one) == EINVAL);
  f.check();
}

TEST_CASE("A frame shared with a neighbour stays, and so do the neighbour's bytes") {
  HeapFixture f(8);
  f.device.automatic = true;
  std::byte* a = f.allocate(3 * mib, f.one);
  std::byte* b = f.allocate(6 * mib, f.one);
  std::byte* c = f.allocate(3 * mib, f.one);
  HeapFixture::fill(a, 3 * mib, 1);
  HeapFixture::fill(b, 6 * mib, 2);
  HeapFixture::fill(c, 3 * mib, 3);
  REQUIRE(f.heap.evict(b, false, f.one) == 0);
  f.heap.statistics();
  CHECK(f.device.mapped == 4);  // b lay on five frames of six, and shared two of them
  CHECK(HeapFixture::filled(a, 3 * mib, 1));
  CHECK(HeapFixture::filled(c, 3 * mib, 3));
  REQUIRE(f.heap.restore(b, f.one) == 0);
  CHECK(HeapFixture::filled(b, 6 * mib, 2));
  CHECK(HeapFixture::filled(a, 3 * mib, 1));
  CHECK(HeapFixture::filled(c, 3 * mib, 3));
  f.check();
}

TEST_CASE("Restored before its copy has passed, a block never left") {
  HeapFixture f(8);
  std::byte* a = f.allocate(8 * mib, f.one);
  HeapFixture::fill(a, 8 * mib, 9);
  REQUIRE(f.heap.evict(a, false, f.one) == 0);
  const std::uint64_t copies = f.device.calls["copy"];
  REQUIRE(f.heap.restore(a, f.one) == 0);
  CHECK(f.device.calls["copy"] == copies);
  // The copy may still read the block: what frees it comes behind that.
  REQUIRE(!f.device.waits.empty());
  CHECK(f.device.waits.back().stream == f.one);
  CHECK(HeapFixture::filled(a, 8 * mib, 9));
  CHECK(f.heap.statistics().evicted_bytes == 0);
  f.check();
}

TEST_CASE("Kept mapped, the block can be used in host memory, and what was written there comes back") {
  HeapFixture f(4);
  std::byte* a = f.allocate(8 * mib, f.one);
  HeapFixture::fill(a, 8 * mib, 1);
  REQUIRE(f.heap.evict(a, true, f.one) == 0);
  CHECK(f.device.host_frames_alive == 4);
  CHECK(HeapFixture::filled(a, 8 * mib, 1));
  HeapFixture::fill(a, 8 * mib, 2);
  std::byte* b = f.allocate(8 * mib, f.one);
  HeapFixture::fill(b, 8 * mib, 7);
  CHECK(f.heap.restore(a, f.one) == ENOMEM);
  CHECK(HeapFixture::filled(a, 8 * mib, 2));
  f.free(b, f.one);
  REQUIRE(f.heap.restore(a, f.one) == 0);
  CHECK(HeapFixture::filled(a, 8 * mib, 2));
  CHECK(f.device.host_frames_alive == 0);
  f.check();
}

TEST_CASE("Evicted blocks are freed wherever they are, and their memory is used again") {
  for (const bool keep_mapped : {false, true}) {
    for (const bool passed : {false, true}) {
      HeapFixture f(4);
      f.device.automatic = passed;
      std::byte* a = f.allocate(8 * mib, f.one);
      REQUIRE(f.heap.evict(a, keep_mapped, f.one) == 0);
      f.free(a, f.one);
      f.check();
      CHECK(f.heap.statistics().evicted_bytes == 0);
      CHECK(f.device.host_frames_alive == 0);
      std::byte* b = f.allocate(8 * mib, f.one);
      HeapFixture::fill(b, 8 * mib, 1);
      CHECK(HeapFixture::filled(b, 8 * mib, 1));
      f.check();
    }
  }
}

TEST_CASE("A block is freed, and its address used again, while another thread restores it") {
  for (const bool again : {false, true}) {
    HeapFixture f(8);
    f.device.automatic = true;
    std::byte* a = f.allocate(8 * mib, f.one);
    REQUIRE(f.heap.evict(a, false, f.one) == 0);
    REQUIRE(f.heap.statistics().evicted_bytes == 8 * mib);  // its copy has passed
    HeldReader reader(f.device.latest_pinned, 8 * mib);
    int restored = -1;
    std::thread other([&] { restored = f.heap.restore(a, f.one); });
    reader.await();
    CHECK(f.heap.restore(a, f.one) == EBUSY);
    f.free(a, f.one);
    if (again) {
      REQUIRE(f.allocate(8 * mib, f.one) == a);
      HeapFixture::fill(a, 8 * mib, 5);
      REQUIRE(f.heap.evict(a, false, f.one) == 0);
    }
    reader.let_go();
    other.join();
    CHECK(restored == EINVAL);
    CHECK_FALSE(reader.memory_was_unmapped());
    CHECK(f.heap.statistics().evicted_bytes == (again ? 8 * mib : 0));
    CHECK(f.device.pinned == (again ? 1 : 0));
    if (again) {
      REQUIRE(f.heap.restore(a, f.one) == 0);
      CHECK(HeapFixture::filled(a, 8 * mib, 5));
    }
    f.check();
  }
}

TEST_CASE("A copy back that is under way has passed, or keeps its source, before the block is freed") {
  for (const bool can_wait : {true, false}) {
    HeapFixture f(8);
    f.device.automatic = true;
    std::byte* a = f.allocate(8 * mib, f.one);
    REQUIRE(f.heap.evict(a, false, f.one) == 0);
    REQUIRE(f.heap.statistics().evicted_bytes == 8 * mib);  // its copy has passed
    f.device.automatic = false;
    f.device.fail("record", 1, EIO);  // of the copy back's event
    if (!can_wait) f.device.fail("synchronize", 1, EIO);
    CHECK(f.heap.restore(a, f.one) == EIO);
    const auto* copies = test::told(f.device.latest_stream());
    CHECK((copies->passed == copies->position) == can_wait);
    CHECK(f.allocation_error(8 * mib, f.one) == (can_wait ? 0 : EIO));
    f.free(a, f.one);
    CHECK(f.device.pinned == (can_wait ? 0 : 1));
    CHECK(f.heap.statistics().evicted_bytes == 0);
    f.check();
  }
}

TEST_CASE("Whatever call fails, evict and restore leave the bytes readable and can be tried again") {
  const char* const calls[] = {
      "create_stream", "create_event", "record",          "wait",        "copy",        "call_host",
      "map",           "unmap",        "reserve_address", "synchronize", "create_frame"};
  for (const bool keep_mapped : {false, true}) {
    for (const char* call : calls) {
      for (const int nth : {1, 2, 3}) {
        HeapFixture f(6);
        f.device.automatic = true;
        INFO(call << " " << nth << (keep_mapped ? " kept mapped" : ""));
        std::byte* a = f.allocate(8 * mib, f.one);
        HeapFixture::fill(a, 8 * mib, 6);
        f.device.fail(call, nth, EIO);
        const int evicted = f.heap.evict(a, keep_mapped, f.one);
        if (evicted != 0) REQUIRE(HeapFixture::filled(a, 8 * mib, 6));
        f.check();
        if (evicted != 0) REQUIRE(f.heap.evict(a, keep_mapped, f.one) == 0);
        f.device.fail(call, nth, EIO);
        if (f.heap.restore(a, f.one) != 0) REQUIRE(f.heap.restore(a, f.one) == 0);
        REQUIRE(HeapFixture::filled(a, 8 * mib, 6));
        CHECK(f.heap.statistics().evicted_bytes == 0);
        f.check();
      }
    }
  }
}

TEST_CASE(
    "A way back that fails after restore returned is reported by every later call that gives memory out") {
  HeapFixture f(8);
  std::byte* a = f.allocate(8 * mib, f.one);
  std::byte* b = f.allocate(2 * mib, f.one);
  REQUIRE(f.heap.evict(a, false, f.one) == 0);
  f.device.automatic = true;
  f.device.calls.clear();
  std::byte* c = f.allocate(8 * mib, f.one);  // the host waited for the copy
  f.free(c, f.one);
  f.device.automatic = false;
  f.device.fail("copied", 1, EIO);
  REQUIRE(f.heap.restore(a, f.one) == 0);
  CHECK(f.allocation_error(1 * mib, f.one) == 0);  // nobody can know yet
  tiers::gpu::Stream copies = f.device.waits.back().for_stream;
  f.device.pass(copies);
  CHECK(f.allocation_error(1 * mib, f.one) == EIO);
  CHECK(f.heap.restore(a, f.one) == EIO);
  CHECK(f.heap.evict(b, false, f.one) == EIO);
  CHECK(f.heap.evict(b, true, f.one) == EIO);
  CHECK(f.heap.statistics().failures == 1);
  f.free(a, f.one);
  f.free(b, f.one);
  f.check();
}

TEST_CASE("A way out that fails in its turn leaves the block where it was, and the heap goes on") {
  HeapFixture f(8);
  std::byte* a = f.allocate(8 * mib, f.one);
  HeapFixture::fill(a, 8 * mib, 3);
  f.device.fail("copied", 1, EIO);
  REQUIRE(f.heap.evict(a, false, f.one) == 0);
  f.device.automatic = true;
  tiers::gpu::Stream copies = f.device.waits.front().stream;
  f.device.pass(copies);
  CHECK(f.heap.statistics().evicted_bytes == 0);
  CHECK(f.heap.restore(a, f.one) == EALREADY);
  CHECK(HeapFixture::filled(a, 8 * mib, 3));
  CHECK(f.allocation_error(1 * mib, f.one) == 0);
  f.check();
}

TEST_CASE("A copy whose bytes changed in host memory is found out") {
  test::ToldDevice device(1);
  device.automatic = true;
  std::vector<std::byte> content(10'000, std::byte{5});
  std::shared_ptr<HostCopy> copy;
  REQUIRE(HostCopy::create(device, content.size(), &copy) == 0);
  REQUIRE(copy->queue_out(nullptr, content.data()) == 0);
  REQUIRE(copy->query() == 0);
  CHECK(copy->intact());
  copy->data()[9'999] ^= std::byte{1};
  CHECK(!copy->intact());
  copy.reset();
  CHECK(device.pinned == 0);
  CHECK(device.events_alive == 0);
}

}  // namespace terrace::liballoc::gpu
