// A heap under a grant of a daemon's: what it gives back, what it evicts, what stays, and what waits.
#include "liballoc/gpu/heap/grant.h"

#include <cerrno>
#include <chrono>
#include <thread>

#include "liballoc/gpu/heap/offers.h"
#include "tests/liballoc/gpu/heap/heap_fixture.h"

using namespace terrace;
using namespace terrace::test;

namespace {

constexpr std::uint64_t frame = 2 * mib;

struct Granted : HeapFixture {
  Granted() : HeapFixture(16) { device.automatic = true; }
  std::uint64_t held() { return heap.report().held_bytes; }
  void grant(std::uint64_t frames) {
    heap.set_grant(frames * frame, false);
    for (int i = 0; i < 4; ++i) heap.obey();
  }
};

}  // namespace

TEST_CASE_METHOD(Granted, "A lowered grant takes idle frames and nothing that is in use") {
  std::byte* used = allocate(4 * frame, one);
  std::byte* idle = allocate(6 * frame, one);
  fill(used, 4 * frame, 7);
  free(idle, one);
  grant(2);
  CHECK(held() == 4 * frame);
  CHECK(filled(used, 4 * frame, 7));
  CHECK(heap.report().limit_bytes == 2 * frame);
  check();
  free(used, one);
  CHECK(allocation_error(frame, one) == 0);  // this thread's call gives back what it may
  heap.give_back();
  CHECK(held() <= 2 * frame);
  check();
}

TEST_CASE_METHOD(Granted, "Nothing grows past a grant and all does when it rises") {
  grant(4);
  std::byte* block = allocate(4 * frame, one);
  CHECK(allocation_error(frame, one) == ENOMEM);
  CHECK(allocation_error(8 * frame, one) == ENOMEM);
  grant(16);
  CHECK(allocation_error(8 * frame, one) == 0);
  free(block, one);
  check();
}

TEST_CASE_METHOD(Granted, "A budget of its own holds beside a grant") {
  REQUIRE(heap.set_budget(6 * frame) == 0);
  grant(16);
  CHECK(heap.report().limit_bytes == 6 * frame);
  CHECK(allocation_error(7 * frame, one) == ENOMEM);
  grant(3);
  CHECK(heap.report().limit_bytes == 3 * frame);
  REQUIRE(heap.set_budget(12 * frame) == 0);
  CHECK(heap.report().limit_bytes == 3 * frame);
  CHECK(heap.statistics().budget_bytes == 3 * frame);
}

TEST_CASE_METHOD(Granted, "What is offered leaves when the grant falls and comes back as it was") {
  std::byte* kept = allocate(4 * frame, one);
  std::byte* offered = allocate(6 * frame, one);
  fill(kept, 4 * frame, 1);
  fill(offered, 6 * frame, 2);
  REQUIRE(heap.offer(offered, one) == 0);
  CHECK(held() == 10 * frame);  // nothing is short
  grant(4);
  CHECK(held() == 4 * frame);
  CHECK(heap.report().evicted_bytes == 6 * frame);
  CHECK(filled(kept, 4 * frame, 1));
  CHECK(heap.restore(offered, one) == ENOMEM);
  grant(16);
  REQUIRE(heap.restore(offered, one) == 0);
  CHECK(filled(offered, 6 * frame, 2));
  CHECK(heap.report().evicted_bytes == 0);
  free(kept, one);
  free(offered, one);
  check();
}

TEST_CASE_METHOD(Granted, "What is offered and not needed stays and comes back at once") {
  std::byte* block = allocate(4 * frame, one);
  REQUIRE(heap.offer(block, one) == 0);
  CHECK(heap.offer(block, one) == EALREADY);
  grant(8);
  CHECK(heap.restore(block, one) == 0);
  CHECK(heap.restore(block, one) == EALREADY);
  grant(1);
  CHECK(held() == 4 * frame);  // it is not offered any more
  CHECK(heap.offer(block + 1, one) == EINVAL);
  free(block, one);
}

TEST_CASE_METHOD(Granted, "No more leaves than has to and what was offered first goes first") {
  std::byte* first = allocate(3 * frame, one);
  std::byte* second = allocate(3 * frame, one);
  fill(first, 3 * frame, 1);
  fill(second, 3 * frame, 2);
  REQUIRE(heap.offer(first, one) == 0);
  REQUIRE(heap.offer(second, one) == 0);
  grant(4);
  CHECK(held() == 4 * frame);
  CHECK(heap.report().evicted_bytes == 3 * frame);
  CHECK(heap.restore(second, one) == 0);  // it is there
  CHECK(heap.restore(first, one) == ENOMEM);
}

TEST_CASE_METHOD(Granted, "As much leaves in one round as has to") {
  std::byte* first = allocate(3 * frame, one);
  std::byte* second = allocate(3 * frame, one);
  REQUIRE(heap.offer(first, one) == 0);
  REQUIRE(heap.offer(second, one) == 0);
  heap.set_grant(frame, false);
  heap.obey();
  CHECK(heap.report().evicted_bytes == 6 * frame);
}

TEST_CASE_METHOD(Granted, "An allocation that finds no frames takes those of what is offered") {
  std::byte* offered = allocate(10 * frame, one);
  fill(offered, 10 * frame, 3);
  REQUIRE(heap.offer(offered, one) == 0);
  std::byte* wanted = allocate(12 * frame, one);
  CHECK(heap.report().evicted_bytes == 10 * frame);
  free(wanted, one);
  REQUIRE(heap.restore(offered, one) == 0);
  CHECK(filled(offered, 10 * frame, 3));
  free(offered, one);
  check();
}

TEST_CASE_METHOD(Granted, "An offered block may be freed or evicted by its program") {
  std::byte* freed = allocate(2 * frame, one);
  std::byte* evicted = allocate(2 * frame, one);
  REQUIRE(heap.offer(freed, one) == 0);
  REQUIRE(heap.offer(evicted, one) == 0);
  free(freed, one);
  std::byte* again = allocate(2 * frame, one);
  CHECK(again == freed);
  REQUIRE(heap.evict(evicted, false, one) == 0);
  grant(1);
  CHECK(heap.report().evicted_bytes == 2 * frame);
  CHECK(held() == 2 * frame);  // the new block is not offered
  grant(16);
  REQUIRE(heap.restore(evicted, one) == 0);
  CHECK(heap.report().evicted_bytes == 0);
  check();
  free(again, one);
  free(evicted, one);
}

TEST_CASE("A block that is offered leaves behind the work that may use it") {
  HeapFixture f(16);
  std::byte* block = f.allocate(4 * frame, f.one);
  f.heap.record_stream(block, f.two);
  REQUIRE(f.heap.offer(block, f.one) == 0);
  const auto waited_for = [&](gpu::Stream stream) {
    return std::any_of(f.device.waits.begin(), f.device.waits.end(),
                       [&](const auto& wait) { return wait.for_stream == f.device.handle(stream); });
  };
  CHECK(waited_for(f.one));
  CHECK(waited_for(f.two));
}

TEST_CASE_METHOD(Granted, "An allocation waits for a larger grant where a daemon may give one") {
  heap.set_grant(2 * frame, true);
  std::byte* block = allocate(2 * frame, one);
  std::uint64_t wanted = 0;
  std::thread daemon([&] {
    for (int i = 0; i < 200 && wanted <= 2 * frame; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      wanted = heap.report().wanted_bytes;
    }
    heap.set_grant(8 * frame, true);
  });
  std::byte* more = allocate(4 * frame, one);
  daemon.join();
  CHECK(wanted == 6 * frame);  // what it uses, and what it was refused
  free(block, one);
  free(more, one);
}

TEST_CASE_METHOD(Granted, "What was waited for in vain is refused at once until the grant is another one") {
  heap.set_grant(2 * frame, true);
  using Clock = std::chrono::steady_clock;
  const auto timed = [&] {
    const auto before = Clock::now();
    CHECK(allocation_error(4 * frame, one) == ENOMEM);
    return Clock::now() - before;
  };
  CHECK(timed() >= liballoc::gpu::Heap::grant_patience);
  CHECK(timed() < liballoc::gpu::Heap::grant_patience / 2);
  heap.set_grant(frame, true);
  CHECK(timed() >= liballoc::gpu::Heap::grant_patience);
  heap.lose_daemon();
  heap.set_grant(3 * frame, false);
  CHECK(timed() < liballoc::gpu::Heap::grant_patience / 2);  // nobody could grant more
}

TEST_CASE("What was missed is wanted for a while and no more than the heap may have") {
  liballoc::gpu::Grant grant;
  CHECK(grant.demand(4, 100) == 4);
  grant.went_without(50);
  CHECK(grant.demand(4, 100) == 54);
  CHECK(grant.demand(90, 100) == 100);
  for (unsigned i = 0; i < 3 * liballoc::gpu::Grant::rounds_remembered; ++i) grant.demand(4, 100);
  CHECK(grant.demand(4, 100) == 4);
}
