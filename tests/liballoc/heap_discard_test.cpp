// A program discards memory of a heap that pages (MADV_DONTNEED and its like): what it is told to be gone is
// gone, what the kernel refuses is untouched.
//
// The linker's --wrap sends every system call here first, so that something can happen right before the
// kernel drops the pages.
#include <sys/syscall.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "liballoc/heap/heap.h"
#include "tests/liballoc/support.h"
#include "tests/liballoc/wrapped_syscall.h"

namespace {

std::atomic<std::byte*> watched{nullptr};
void (*before_drop)() = nullptr;

}  // namespace

long terrace::liballoc::test::on_system_call(long number, const long (&argument)[6]) {
  auto* const address = reinterpret_cast<std::byte*>(argument[0]);  // NOLINT: what the caller gave
  if (number == SYS_madvise && argument[2] == MADV_DONTNEED && address != nullptr && address == watched) {
    watched = nullptr;
    before_drop();
  }
  return real_system_call(number, argument);
}

namespace terrace::liballoc {
namespace {

using test::fill;
using test::holds;
using test::is_zero;
using test::mib;

constexpr std::size_t block_bytes = 8 * mib;

// A block of whole runs in a heap with an agent. There is one heap in a process, and it stays.
class PagedBlock {
 public:
  PagedBlock() {
    Options options;
    options.dram_bytes = 256 * mib;
    options.pool_bytes = 512 * mib;
    options.pool_directories.read(TERRACE_TEST_POOL_DIR);
    if (!heap().ready() && heap().initialise(options) != 0) std::abort();
    at = static_cast<std::byte*>(heap().allocate(block_bytes, run_bytes, nullptr, false));
    ready = at != nullptr && heap().agent().take_over().ensure_paging();
    if (!ready) std::printf("SKIP: no pager: %s\n", heap().agent().availability().reason());
    fill(at, 1, block_bytes);
  }
  ~PagedBlock() { heap().release(at, nullptr); }
  PagedBlock(const PagedBlock&) = delete;
  PagedBlock& operator=(const PagedBlock&) = delete;

  void evict() const {
    while (!is_stored()) {  // a run that cannot leave now stays, and is asked again
      REQUIRE(heap().advice().advise(at, block_bytes, TERRACE_ADVISE_PAGE_OUT) == 0);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  bool is_stored() const {
    InsideGate gate(heap().guarded());
    const std::uint32_t first = heap().pager().runs().heap().run_of(at);
    bool stored = true;
    for (std::uint32_t n = first; n < first + block_bytes / run_bytes; ++n)
      stored &= heap().pager().run(n).state == RunState::stored;
    return stored;
  }

  RunState state(std::size_t run) const {
    InsideGate gate(heap().guarded());
    return heap().pager().run(heap().pager().runs().heap().run_of(at + run * run_bytes)).state;
  }

  std::byte* at = nullptr;
  bool ready = false;
};

std::uint64_t resident_bytes() {
  terrace_statistics s{};
  s.size = sizeof s;
  heap().accounts().read(&s);
  return s.resident_bytes;
}

std::thread evicting;
std::atomic<bool> evicted{false};
std::byte* to_evict = nullptr;

// Another thread has the block evicted, if the heap's lock lets it.
void evict_meanwhile() {
  evicting = std::thread([] {
    heap().advice().advise(to_evict, block_bytes, TERRACE_ADVISE_PAGE_OUT);
    evicted = true;
  });
  for (int i = 0; i < 200 && !evicted; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

TEST_CASE("RunThatLeavesDuringADiscardIsDiscardedToo") {
  const PagedBlock block;
  if (!block.ready) return;
  evicted = false;
  to_evict = block.at;
  before_drop = &evict_meanwhile;
  watched = block.at;
  CHECK(heap().discards().discard(block.at, block_bytes, MADV_DONTNEED) == 0);
  evicting.join();
  CHECK(is_zero(block.at, block_bytes));
}

TEST_CASE("WhatTheKernelWouldRefuseKeepsWhatWasEvicted") {
  const PagedBlock block;
  if (!block.ready) return;
  block.evict();
  CHECK(heap().discards().discard(block.at, block_bytes, MADV_REMOVE) == EINVAL);
  CHECK(heap().discards().discard(block.at + 1, block_bytes - os::page_bytes, MADV_DONTNEED) == EINVAL);
  CHECK(heap().discards().discard(block.at, ~std::size_t{0}, MADV_DONTNEED) == ENOMEM);
  CHECK(heap().discards().discard(block.at, block_bytes, -1) == EINVAL);
  CHECK(heap().discards().discard(block.at, 0, MADV_DONTNEED) == 0);
  CHECK(holds(block.at, 1, block_bytes));
}

TEST_CASE("A length inside a page discards the whole page, as the kernel does") {
  const PagedBlock block;
  if (!block.ready) return;
  block.evict();
  CHECK(heap().discards().discard(block.at, block_bytes - os::page_bytes + 1, MADV_DONTNEED) == 0);
  CHECK(is_zero(block.at, block_bytes));
}

TEST_CASE("A discard of a part of a run keeps the rest of it") {
  const PagedBlock block;
  if (!block.ready) return;
  block.evict();
  const std::size_t from = GENERATE(std::size_t{0}, 3 * os::page_bytes, run_bytes + os::page_bytes);
  const std::size_t to = GENERATE(std::size_t{0}, 5 * os::page_bytes) + 2 * run_bytes - os::page_bytes;
  CHECK(heap().discards().discard(block.at + from, to - from, MADV_DONTNEED) == 0);
  const auto* words = reinterpret_cast<const std::uint64_t*>(block.at);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < block_bytes / sizeof *words; ++i) {
    const bool discarded = i >= from / sizeof *words && i < to / sizeof *words;
    wrong += words[i] != (discarded ? 0 : test::word_of(1, i)) ? 1 : 0;
  }
  CHECK(wrong == 0);
}

TEST_CASE("What is discarded is not counted as resident until it is touched again") {
  const PagedBlock block;
  if (!block.ready) return;
  const std::uint64_t before = resident_bytes();
  REQUIRE(heap().pins().pin(block.at, run_bytes) == 0);  // the program's own business
  CHECK(heap().discards().discard(block.at, 3 * run_bytes + run_bytes / 2, MADV_DONTNEED) == 0);
  CHECK(heap().pins().unpin(block.at, run_bytes) == 0);
  for (std::size_t n = 0; n < 3; ++n) CHECK(block.state(n) == RunState::empty);
  CHECK(block.state(3) == RunState::resident);
  CHECK(resident_bytes() == before - 3 * run_bytes - run_bytes / 2);
  CHECK(is_zero(block.at, 3 * run_bytes + run_bytes / 2));
  CHECK(block.state(1) == RunState::resident);
  fill(block.at, 2, block_bytes);
  block.evict();
  CHECK(holds(block.at, 2, block_bytes));
}

// The kernel may take lazily freed pages at any time, from under the agent's eyes and out of a frame.
TEST_CASE("What may be discarded when memory is short is discarded at once") {
  const PagedBlock block;
  if (!block.ready) return;
  REQUIRE(heap().discards().discard(block.at, block_bytes, MADV_FREE) == 0);
  for (std::size_t n = 0; n < block_bytes / run_bytes; ++n) CHECK(block.state(n) == RunState::empty);
  CHECK(is_zero(block.at, block_bytes));
  fill(block.at, 2, block_bytes);
  CHECK(holds(block.at, 2, block_bytes));
}

TEST_CASE("A discard inside a run that may not be read touches nothing") {
  const PagedBlock block;
  if (!block.ready) return;
  REQUIRE(heap().pins().pin(block.at, run_bytes) == 0);  // as mprotect() does
  REQUIRE(os::protect(block.at, run_bytes, PROT_NONE) == 0);
  CHECK(heap().discards().discard(block.at + os::page_bytes, os::page_bytes, MADV_DONTNEED) == 0);
  REQUIRE(os::protect(block.at, run_bytes, PROT_READ | PROT_WRITE) == 0);
  CHECK(heap().pins().unpin(block.at, run_bytes) == 0);
  CHECK(is_zero(block.at + os::page_bytes, os::page_bytes));
  CHECK(holds(block.at, 1, os::page_bytes));
}

}  // namespace terrace::liballoc
