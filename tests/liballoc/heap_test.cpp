// The heap without a pager: allocation, growth in place and by moving, zeroes, accounts.
#include "liballoc/heap/heap.h"

#include <signal.h>

#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/liballoc/captured_stderr.h"
#include "tests/liballoc/support.h"

namespace terrace::liballoc {
namespace {

using test::fill;
using test::holds;
using test::is_zero;
using test::mib;

constexpr std::size_t kib = test::kib;

// The process's heap, as empty as at the beginning: there can be one only, since fork handlers serve it.
class CleanHeap {
 public:
  CleanHeap() {
    if (!heap().ready() && heap().initialise(Options{}) != 0) std::abort();
    before_ = all();
  }
  ~CleanHeap() {
    while (!blocks_.empty()) release(*blocks_.begin());
    heap().trim();
    heap().blocks().space().check_invariants();
    heap().pager().check_invariants();
    if (heap().pager().runs().data_runs() != 0 || heap().pager().budget().backed_bytes() != 0) std::abort();
  }
  CleanHeap(const CleanHeap&) = delete;
  CleanHeap& operator=(const CleanHeap&) = delete;

  Heap* operator->() const { return &heap(); }
  std::byte* allocate(std::size_t bytes, std::size_t alignment = 64, bool zeroed = false) {
    return keep(heap().allocate(bytes, alignment, nullptr, zeroed));
  }
  std::byte* resize(std::byte* block, std::size_t bytes) {
    void* resized = heap().resize(block, bytes, nullptr);
    if (resized != nullptr) blocks_.erase(block);
    return keep(resized);
  }
  void release(std::byte* block) {
    blocks_.erase(block);
    heap().release(block, nullptr);
  }
  // Since the beginning of the test; amounts that rise and fall are absolute.
  terrace_statistics statistics() const {
    terrace_statistics s = all();
    s.allocations -= before_.allocations;
    s.frees -= before_.frees;
    s.recycled_allocations -= before_.recycled_allocations;
    return s;
  }

 private:
  std::byte* keep(void* block) {
    if (block != nullptr) blocks_.insert(static_cast<std::byte*>(block));
    return static_cast<std::byte*>(block);
  }
  static terrace_statistics all() {
    terrace_statistics s{};
    s.size = sizeof(s);
    heap().accounts().read(&s);
    return s;
  }

  std::set<std::byte*> blocks_;
  terrace_statistics before_{};
};

}  // namespace

TEST_CASE("A block is owned, aligned, and as large as was asked for") {
  CleanHeap own;
  for (const std::size_t alignment : {std::size_t{16}, 64 * kib, 2 * mib, 4 * mib, 64 * mib}) {
    std::byte* block = own.allocate(3 * mib + 1, alignment);
    REQUIRE(block != nullptr);
    CHECK(own->owns(block));
    CHECK(reinterpret_cast<std::uintptr_t>(block) % alignment == 0);
    CHECK(own->usable_bytes(block) >= 3 * mib + 1);
    fill(block, 1, 3 * mib);
    CHECK(holds(block, 1, 3 * mib));
  }
  int other = 0;
  CHECK_FALSE(own->owns(&other));
  CHECK_FALSE(own->owns(nullptr));
}

TEST_CASE("A zeroed block is zero, fresh and recycled") {
  CleanHeap own;
  const std::size_t bytes = GENERATE(300 * kib, 2 * mib, 5 * mib + 4096);
  std::byte* fresh = own.allocate(bytes, 64, true);
  CHECK(is_zero(fresh, bytes));
  fill(fresh, 1, bytes);
  own.release(fresh);
  std::byte* recycled = own.allocate(bytes, 64, true);
  CHECK(recycled == fresh);
  CHECK(is_zero(recycled, bytes));
}

TEST_CASE("A zeroed block is zero where its granules are half recycled") {
  CleanHeap own;
  std::byte* used = own.allocate(mib);
  fill(used, 1, mib);
  own.release(used);
  std::byte* larger = own.allocate(3 * mib, 64, true);
  CHECK(is_zero(larger, 3 * mib));
  std::byte* smaller = own.allocate(768 * kib, 64, true);
  CHECK(is_zero(smaller, 768 * kib));
}

// The first time a dense block gives its memory back, so that it comes again in huge pages (huge_pages.h).
TEST_CASE("A freed block is recycled warm from its second time on") {
  CleanHeap own;
  std::byte* block = nullptr;
  for (int time = 0; time < 2; ++time) {
    block = own.allocate(8 * mib);
    fill(block, 1, 8 * mib);
    own.release(block);
  }
  CHECK(own.statistics().recycled_bytes == 8 * mib);
  CHECK(own.allocate(8 * mib) == block);
  CHECK(own.statistics().recycled_allocations == 1);
  CHECK(own.statistics().recycled_bytes == 0);
}

TEST_CASE("Trim gives recycled memory to the kernel") {
  CleanHeap own;
  std::byte* block = own.allocate(8 * mib);
  fill(block, 1, 8 * mib);
  own.release(block);
  CHECK(own->trim() == 8 * mib);
  CHECK(own.statistics().recycled_bytes == 0);
  std::byte* again = own.allocate(8 * mib);
  CHECK(again == block);
  CHECK(is_zero(again, 8 * mib));
}

TEST_CASE("Growth happens in place when the neighbour is free, else by moving") {
  CleanHeap own;
  std::byte* block = own.allocate(4 * mib);
  fill(block, 1, 4 * mib);
  std::byte* grown = own.resize(block, 9 * mib);
  CHECK(grown == block);
  CHECK(own->usable_bytes(grown) >= 9 * mib);
  CHECK(holds(grown, 1, 4 * mib));
  std::byte* fence = own.allocate(2 * mib);
  REQUIRE(fence != nullptr);
  fill(grown, 2, 9 * mib);
  std::byte* moved = own.resize(grown, 40 * mib);
  CHECK(moved != grown);
  CHECK(holds(moved, 2, 9 * mib));
}

TEST_CASE("Growth inside a run and over its end keeps the bytes and the accounts") {
  CleanHeap own;
  std::byte* block = own.allocate(300 * kib);
  fill(block, 1, 300 * kib);
  for (std::size_t bytes = 400 * kib; bytes < 7 * mib; bytes += 200 * kib) {
    block = own.resize(block, bytes);
    REQUIRE(holds(block, 1, 300 * kib));
    own->pager().check_invariants();
  }
  own.release(block);
  CHECK(own->pager().runs().data_runs() == 0);
}

TEST_CASE("A little smaller stays in place, much smaller moves") {
  CleanHeap own;
  std::byte* block = own.allocate(8 * mib);
  fill(block, 1, 8 * mib);
  CHECK(own.resize(block, 5 * mib) == block);
  std::byte* small = own.resize(block, mib);
  CHECK(small != block);
  CHECK(holds(small, 1, mib));
  CHECK(own->usable_bytes(small) < 2 * mib);
}

TEST_CASE("Live bytes count what is live, also after growth in place") {
  CleanHeap own;
  std::byte* block = own.allocate(4 * mib);
  CHECK(own.statistics().heap_live_bytes == 4 * mib);
  block = own.resize(block, 6 * mib);
  CHECK(own.statistics().heap_live_bytes == 6 * mib);
  CHECK(own.statistics().heap_peak_bytes >= 6 * mib);
  own.release(block);
  CHECK(own.statistics().heap_live_bytes == 0);
  CHECK(own.statistics().allocations == own.statistics().frees);
}

TEST_CASE("What cannot be had is refused and hurts nothing") {
  CleanHeap own;
  CHECK(own.allocate(~std::size_t{0}) == nullptr);
  CHECK(own.allocate(own->span()) == nullptr);
  CHECK(own.allocate(mib, std::size_t{1} << 45) == nullptr);
  std::byte* block = own.allocate(mib);
  fill(block, 1, mib);
  CHECK(own.resize(block, ~std::size_t{0}) == nullptr);
  CHECK(own.resize(block, own->span()) == nullptr);
  CHECK(holds(block, 1, mib));
}

TEST_CASE("A pointer that is no live block ends the process and is named") {
  const int where = GENERATE(0, 1, 2);
  test::CapturedStderr captured;
  const int result = test::in_child([&] {
    ::signal(SIGABRT, SIG_DFL);
    CleanHeap own;
    std::byte* block = own.allocate(4 * mib);
    if (where == 0) own->release(block + 64, nullptr);
    if (where == 1) own->release(block + 64 * kib, nullptr);
    own.release(block);
    own.release(block);
    return 0;
  });
  const std::string text = captured.text();
  CHECK(result == 200 + SIGABRT);
  CHECK(text.find("not the start of a live block") != std::string::npos);
}

TEST_CASE("The bootstrap arena serves until it is full and is never given back") {
  CleanHeap own;
  auto* first = static_cast<std::byte*>(own->bootstrap_allocate(100, 16));
  auto* second = static_cast<std::byte*>(own->bootstrap_allocate(5000, 4096));
  REQUIRE(first != nullptr);
  REQUIRE(second != nullptr);
  CHECK(own->is_bootstrap(first));
  CHECK(own->owns(first));
  CHECK(own->usable_bytes(first) == 100);
  CHECK(own->usable_bytes(second) == 5000);
  CHECK(reinterpret_cast<std::uintptr_t>(second) % 4096 == 0);
  fill(second, 1, 4096);
  own->release(first, nullptr);
  own->release(second, nullptr);
  CHECK(own->bootstrap_allocate(~std::size_t{0}, 16) == nullptr);
  CHECK(own->bootstrap_allocate(2 * mib, 16) == nullptr);
  std::size_t served = 0;
  while (own->bootstrap_allocate(1024, 16) != nullptr) ++served;
  CHECK(served > 1500);
  CHECK(holds(second, 1, 4096));
}

TEST_CASE("Ranges are accepted only inside one live block") {
  CleanHeap own;
  std::byte* block = own.allocate(6 * mib);
  std::byte* next = own.allocate(2 * mib);
  REQUIRE(next == block + 6 * mib);
  const auto is_inside = [&](const void* at, std::size_t bytes) {
    return own->blocks().runs_of(at, bytes).block != 0;
  };
  const Blocks::Runs whole = own->blocks().runs_of(block, 6 * mib);
  CHECK(whole.block != 0);
  CHECK(whole.last == whole.first + 2);
  const Blocks::Runs across = own->blocks().runs_of(block + 2 * mib - 1, 2);
  CHECK(across.block != 0);
  CHECK(across.last == across.first + 1);
  CHECK_FALSE(is_inside(block, 6 * mib + 1));
  CHECK_FALSE(is_inside(block, 0));
  CHECK_FALSE(is_inside(block + mib, ~std::size_t{0}));
  CHECK_FALSE(is_inside(next + 2 * mib, 1));
  CHECK_FALSE(is_inside(&own, 1));
  CHECK_FALSE(is_inside(own->bootstrap_allocate(64, 16), 1));
  own.release(block);
  CHECK_FALSE(is_inside(block, 1));
}

TEST_CASE("Without a pager advice is not supported, pins are counted") {
  CleanHeap own;
  std::byte* block = own.allocate(6 * mib);
  CHECK(own->advice().advise(block, 6 * mib, TERRACE_ADVISE_COLD) == ENOTSUP);
  CHECK(own->advice().advise(block, 6 * mib + 1, TERRACE_ADVISE_COLD) == EINVAL);
  CHECK(own->pins().pin(block, 6 * mib) == 0);
  CHECK(own->pins().unpin(block, 6 * mib) == 0);
  CHECK(own->pins().unpin(block, 6 * mib + 1) == EINVAL);
}

TEST_CASE("Random blocks keep their bytes") {
  CleanHeap own;
  test::Random random(7);
  struct Owned {
    std::byte* block;
    std::size_t bytes;
    std::uint64_t seed;
  };
  std::vector<Owned> owned;
  std::size_t wrong = 0;
  for (std::uint64_t i = 0; i < 3000; ++i) {
    if (owned.size() > 40 || (!owned.empty() && random.below(3) == 0)) {
      const std::size_t at = random.below(owned.size());
      Owned& o = owned[at];
      wrong += holds(o.block, o.seed, 4096) && holds(o.block + 8192, o.seed, 4096) ? 0 : 1;
      if (random.below(2) == 0) {
        o.block = own.resize(o.block, o.bytes = 16 * kib + random.below(3 * mib));
        wrong += holds(o.block, o.seed, 4096) ? 0 : 1;
        fill(o.block + 8192, o.seed, 4096);
        continue;
      }
      own.release(o.block);
      o = owned.back();
      owned.pop_back();
      continue;
    }
    const std::size_t bytes = 16 * kib + random.below(random.below(4) == 0 ? 6 * mib : 512 * kib);
    const bool zeroed = random.below(2) == 0;
    std::byte* block = own.allocate(bytes, 64, zeroed);
    wrong += !zeroed || is_zero(block, bytes) ? 0 : 1;
    fill(block, i, 4096);
    fill(block + 8192, i, 4096);
    owned.push_back({block, bytes, i});
  }
  CHECK(wrong == 0);
}

}  // namespace terrace::liballoc
