// The program changes mappings of memory that it got from malloc: discards it, moves it, unmaps it,
// reallocates it, while the pages lie on the tier and the kernel alone would answer with zeroes or with what
// was there before.
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "tests/hazards/hazard.h"

namespace terrace::hazards {
namespace {

constexpr std::size_t block_bytes = 16 * mib;

unsigned char* run_aligned(std::uint64_t seed) {
  auto* block = static_cast<unsigned char*>(std::aligned_alloc(run_bytes, block_bytes));
  HAZARD_CHECK(block != nullptr);
  fill_pattern(block, block_bytes, seed);
  return block;
}

std::size_t wrong_in_range(const unsigned char* block, std::size_t from, std::size_t to, std::uint64_t seed) {
  std::size_t wrong = 0;
  for (std::size_t n = from / page_bytes; n < to / page_bytes; ++n) {
    wrong += page_is_right(block + n * page_bytes, seed, n) ? 0 : 1;
  }
  return wrong;
}

// Whole runs and parts of runs, discarded while they are on the tier or in DRAM.
void discard_and_check(bool evicted) {
  unsigned char* block = run_aligned(1);
  if (evicted) evict(block, block_bytes);
  const std::size_t from = 3 * mib;
  const std::size_t to = 9 * mib + 5 * page_bytes;
  HAZARD_CHECK(madvise(block + from, to - from, MADV_DONTNEED) == 0);
  HAZARD_CHECK(is_zero(block + from, to - from));
  HAZARD_CHECK(wrong_in_range(block, 0, from, 1) == 0);
  HAZARD_CHECK(wrong_in_range(block, to, block_bytes, 1) == 0);
  fill_pattern(block, block_bytes, 2);
  evict(block, block_bytes);
  HAZARD_CHECK(count_wrong_pages(block, block_bytes, 2) == 0);
  std::free(block);
}

}  // namespace

HAZARD_TEST(madvise_dontneed_free) {
  require_pager();
  discard_and_check(true);
  discard_and_check(false);
  // MADV_FREE: each page keeps its bytes or is zero, until it is written.
  unsigned char* block = run_aligned(3);
  evict(block, block_bytes);
  HAZARD_CHECK(madvise(block, block_bytes / 2, MADV_FREE) == 0);
  for (std::size_t n = 0; n < block_bytes / 2 / page_bytes; ++n) {
    const unsigned char* page = block + n * page_bytes;
    HAZARD_CHECK(page_is_right(page, 3, n) || is_zero(page, page_bytes));
  }
  HAZARD_CHECK(wrong_in_range(block, block_bytes / 2, block_bytes, 3) == 0);
  fill_pattern(block, block_bytes, 4);
  evict(block, block_bytes);
  HAZARD_CHECK(count_wrong_pages(block, block_bytes, 4) == 0);
}

// All access taken away and given back, whole and in part, where the content is in DRAM, on the tier, or was
// never touched; with a pager and without one.
HAZARD_SCENARIO(mprotect_to_nothing_and_back) {
  const bool pages = parameter("HAZARD_PAGES") == "yes";
  if (pages) require_pager();
  unsigned char* block = run_aligned(1);
  void* fresh = std::aligned_alloc(run_bytes, block_bytes);
  if (pages) evict(block, block_bytes);
  for (int round = 0; round < 2; ++round) {
    HAZARD_CHECK(mprotect(block, block_bytes, PROT_NONE) == 0);
    HAZARD_CHECK(mprotect(fresh, block_bytes, PROT_NONE) == 0);
    HAZARD_CHECK(mprotect(block + mib, 2 * mib, PROT_READ) == 0);
    HAZARD_CHECK(wrong_in_range(block, mib, 3 * mib, 1) == 0);
    HAZARD_CHECK(mprotect(block, block_bytes, PROT_READ | PROT_WRITE) == 0);
    HAZARD_CHECK(mprotect(fresh, block_bytes, PROT_READ | PROT_WRITE) == 0);
    HAZARD_CHECK(count_wrong_pages(block, block_bytes, 1) == 0);
  }
  fill_pattern(fresh, block_bytes, 2);
  HAZARD_CHECK(count_wrong_pages(fresh, block_bytes, 2) == 0);
}

TEST_CASE("hazard_mprotect_to_nothing_and_back") {
  run_for_movers("mprotect_to_nothing_and_back", {{"HAZARD_PAGES", "yes"}});
  run_for_mover("mprotect_to_nothing_and_back", "move", {{"HAZARD_PAGES", "no"}, {"TERRACE_DRAM", ""}});
}

// Two blocks share a run: the next one at the freed one's addresses is as writable as any.
HAZARD_TEST(protected_then_freed_in_a_shared_run) {
  require_pager();
  constexpr std::size_t small = mib / 2;
  void* neighbour = std::aligned_alloc(page_bytes, small);
  fill_pattern(neighbour, small, 1);
  for (int round = 0; round < 3; ++round) {
    void* block = std::aligned_alloc(page_bytes, small);
    fill_pattern(block, small, 2);
    HAZARD_CHECK(mprotect(block, small, PROT_READ) == 0);
    std::free(laundered(block));
    void* next = std::aligned_alloc(page_bytes, small);
    HAZARD_CHECK(next == block);
    fill_pattern(next, small, 3);
    std::free(next);
  }
  HAZARD_CHECK(count_wrong_pages(neighbour, small, 1) == 0);
}

// The moved pages must arrive with their bytes, and later evictions must not touch the new place.
HAZARD_TEST(program_mremap) {
  require_pager();
  unsigned char* block = run_aligned(1);
  unsigned char* other = run_aligned(2);
  evict(block, block_bytes);
  void* target = mmap(nullptr, 4 * mib, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  HAZARD_CHECK(target != MAP_FAILED);
  auto* moved = static_cast<unsigned char*>(
      mremap(block + 4 * mib, 4 * mib, 4 * mib, MREMAP_MAYMOVE | MREMAP_FIXED, target));
  HAZARD_CHECK(moved == target);
  for (std::size_t n = 0; n < 4 * mib / page_bytes; ++n) {
    HAZARD_CHECK(page_is_right(moved + n * page_bytes, 1, n + 4 * mib / page_bytes));
  }
  HAZARD_CHECK(wrong_in_range(block, 0, 4 * mib, 1) == 0);
  HAZARD_CHECK(wrong_in_range(block, 8 * mib, block_bytes, 1) == 0);
  evict(other, block_bytes);
  std::memset(moved, 0x5A, 4 * mib);
  HAZARD_CHECK(count_wrong_pages(other, block_bytes, 2) == 0);
}

// The program puts a mapping of its own where it unmapped a part of a block; the pager must leave it alone.
HAZARD_TEST(program_munmap) {
  require_pager();
  unsigned char* block = run_aligned(1);
  evict(block, block_bytes);
  HAZARD_CHECK(munmap(block + 4 * mib, 4 * mib) == 0);
  auto* own = static_cast<unsigned char*>(
      mmap(block + 4 * mib, 4 * mib, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
  HAZARD_CHECK(own == block + 4 * mib);
  HAZARD_CHECK(is_zero(own, 4 * mib));
  fill_pattern(own, 4 * mib, 2);
  HAZARD_CHECK(wrong_in_range(block, 0, 4 * mib, 1) == 0);
  HAZARD_CHECK(wrong_in_range(block, 8 * mib, block_bytes, 1) == 0);
  terrace_advise(block, block_bytes, TERRACE_ADVISE_PAGE_OUT);
  quiesce();
  HAZARD_CHECK(count_wrong_pages(own, 4 * mib, 2) == 0);
  HAZARD_CHECK(wrong_in_range(block, 0, 4 * mib, 1) == 0);
  HAZARD_CHECK(wrong_in_range(block, 8 * mib, block_bytes, 1) == 0);
}

namespace {

void* resized(void* block, std::size_t from, std::size_t to, std::uint64_t seed) {
  void* result = std::realloc(block, to);
  HAZARD_CHECK(result != nullptr);
  const std::size_t kept = (from < to ? from : to) / page_bytes * page_bytes;
  HAZARD_CHECK(count_wrong_pages(result, kept, seed) == 0);
  fill_pattern(result, to, seed);
  return result;
}

}  // namespace

// Growing into free space, shrinking, moving because something is in the way, and across the threshold.
HAZARD_TEST(realloc_in_place_and_moving) {
  require_pager();
  constexpr std::size_t kib = 1024;
  constexpr std::size_t sizes[] = {8 * mib, 12 * mib, 3 * mib,  24 * mib, 300 * kib, 100 * kib,
                                   5 * mib, 40 * mib, 38 * mib, 64 * kib, 16 * mib};
  for (const bool blocked : {false, true}) {
    std::size_t bytes = 6 * mib;
    void* block = allocate(bytes);
    fill_pattern(block, bytes, 1);
    std::uint64_t seed = 1;
    for (const std::size_t next : sizes) {
      void* neighbour = blocked ? allocate(2 * mib) : nullptr;
      if (bytes >= 5 * mib) evict(block, bytes);
      block = resized(block, bytes, next, seed);
      bytes = next;
      std::free(neighbour);
    }
    volatile std::size_t absurd = SIZE_MAX / 2;
    HAZARD_CHECK(reallocarray(block, absurd, 4) == nullptr);
    HAZARD_CHECK(count_wrong_pages(block, bytes, seed) == 0);
    std::free(block);
  }
}

}  // namespace terrace::hazards
