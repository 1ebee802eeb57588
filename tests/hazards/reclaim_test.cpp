// The kernel takes pages of its own accord: those that the program has freed with MADV_FREE, and, where there
// is swap, any. It does so whether a page is under its address or, evicted, in a frame, and asks nobody.
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>

#include "tests/hazards/hazard.h"
#include "tests/hazards/machine/cgroup.h"

namespace terrace::hazards {
namespace {

constexpr std::size_t block_bytes = 16 * mib;
constexpr std::size_t block_pages = block_bytes / page_bytes;
// Whole runs, and a part of one at either end.
constexpr std::size_t freed_from = 3 * mib;
constexpr std::size_t freed_to = 9 * mib + 5 * page_bytes;
constexpr unsigned hang_seconds = 8;

unsigned char* block_of_small_pages(std::uint64_t seed) {
  auto* block = static_cast<unsigned char*>(std::aligned_alloc(run_bytes, block_bytes));
  HAZARD_CHECK(block != nullptr);
  madvise(block, block_bytes, MADV_NOHUGEPAGE);
  fill_pattern(block, block_bytes, seed);
  return block;
}

void reclaim() {
  if (!reclaim_all(parameter("HAZARD_CGROUP"))) skip("this kernel cannot be asked to reclaim a cgroup");
}

// Without waiting that the runs are gone: a frame with a gap may come back at once.
void ask_out(unsigned char* block) {
  HAZARD_CHECK(terrace_advise(block, block_bytes, TERRACE_ADVISE_PAGE_OUT) == 0);
  quiesce();
}

bool is_old_or_zero(const unsigned char* page, std::uint64_t seed, std::size_t number) {
  return page_is_right(page, seed, number) || is_zero(page, page_bytes);
}

// Touches every page; one that does not come back hangs here, which the alarm ends.
void check_freed_and_others(const unsigned char* block, std::uint64_t seed) {
  std::size_t wrong = 0;
  for (std::size_t n = 0; n < block_pages; ++n) {
    const unsigned char* page = block + n * page_bytes;
    const bool freed = n * page_bytes >= freed_from && n * page_bytes < freed_to;
    wrong += (freed ? is_old_or_zero(page, seed, n) : page_is_right(page, seed, n)) ? 0 : 1;
  }
  if (wrong > 0) std::fprintf(stderr, "%zu of %zu pages are wrong\n", wrong, block_pages);
  HAZARD_CHECK(wrong == 0);
}

// What is written after MADV_FREE is data like any.
void write_and_check(unsigned char* block, std::uint64_t seed) {
  fill_pattern(block, block_bytes, seed);
  reclaim();
  ask_out(block);
  HAZARD_CHECK(count_wrong_pages(block, block_bytes, seed) == 0);
  std::free(block);
}

enum class Order { in_place, in_the_frame, before_it_leaves, after_it_was_back };

void free_reclaim_touch(Order order, std::uint64_t seed) {
  unsigned char* block = block_of_small_pages(seed);
  if (order == Order::after_it_was_back) evict(block, block_bytes);
  HAZARD_CHECK(madvise(block + freed_from, freed_to - freed_from, MADV_FREE) == 0);
  if (order == Order::in_the_frame) ask_out(block);
  reclaim();
  if (order == Order::before_it_leaves || order == Order::after_it_was_back) ask_out(block);
  check_freed_and_others(block, seed);
  write_and_check(block, seed + 100);
}

void run_in_cgroup(const std::string& scenario, bool swap) {
  const MemoryCgroup cgroup;
  if (!cgroup.allow_swap(swap)) return report_skip(no_memory_cgroup);
  cgroup_to_join = cgroup.path();
  for (const std::string& mover : movers()) {
    const Outcome outcome =
        run_scenario(scenario, {{"TERRACE_MOVER", mover}, {"HAZARD_CGROUP", cgroup.path()}}, &join_cgroup);
    INFO("mover " << mover << ", wait status " << outcome.status << "\n" << outcome.output);
    if (outcome.skipped) return report_skip(outcome.skip_reason());
    CHECK(outcome.held());
  }
}

}  // namespace

HAZARD_SCENARIO(freed_pages_reclaimed_in_place) {
  require_pager();
  alarm(hang_seconds);
  free_reclaim_touch(Order::in_place, 1);
  free_reclaim_touch(Order::before_it_leaves, 2);
  free_reclaim_touch(Order::after_it_was_back, 3);
}

TEST_CASE("hazard_pages_of_madv_free_are_old_or_zero_when_the_kernel_took_them") {
  run_in_cgroup("freed_pages_reclaimed_in_place", false);
}

HAZARD_SCENARIO(freed_pages_reclaimed_in_their_frame) {
  require_pager();
  alarm(hang_seconds);
  for (std::uint64_t round = 0; round < 4; ++round) free_reclaim_touch(Order::in_the_frame, 1 + round);
}

// The run has left with its pages still marked: the kernel drops them out of the frame.
TEST_CASE("hazard_pages_of_madv_free_are_old_or_zero_when_the_kernel_took_them_out_of_their_frame") {
  run_in_cgroup("freed_pages_reclaimed_in_their_frame", false);
}

HAZARD_SCENARIO(swapped_under_the_pager) {
  if (read_file("/proc/swaps").find('/') == std::string::npos) skip("this machine has no swap");
  require_pager();
  alarm(hang_seconds);
  unsigned char* first = block_of_small_pages(1);
  auto* second = static_cast<unsigned char*>(std::aligned_alloc(run_bytes, block_bytes));
  HAZARD_CHECK(second != nullptr);
  for (std::uint64_t round = 2; round < 5; ++round) {
    fill_pattern(second, block_bytes, round);
    reclaim();
    ask_out(first);
    reclaim();  // what is in frames
    ask_out(second);
    HAZARD_CHECK(count_wrong_pages(first, block_bytes, round - 1) == 0);
    HAZARD_CHECK(count_wrong_pages(second, block_bytes, round) == 0);
    fill_pattern(first, block_bytes, round);
  }
}

TEST_CASE("hazard_pages_that_the_kernel_swapped_leave_and_come_back_right") {
  run_in_cgroup("swapped_under_the_pager", true);
}

}  // namespace terrace::hazards
