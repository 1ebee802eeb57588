// The kernel's turn: nothing leaves by the pager, what lies on the tier comes when it is touched, and
// afterwards the pager keeps to its budget again. Where the machine has swap, the kernel swaps in between.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>
#include <random>
#include <string>

#include "tests/liballoc/paging/pager_fixture.h"

namespace terrace::liballoc {
namespace {

using test::block_bytes;
using test::budget_runs;
using test::DramPager;
using test::PagerFixture;
using test::RawDramPager;

bool has_swap() {
  std::ifstream areas("/proc/swaps");
  std::string line;
  std::getline(areas, line);
  return static_cast<bool>(std::getline(areas, line));
}

// As the kernel does it where memory is short. What is not there stays away: no page of it is touched.
void swap_out(std::byte* block, std::size_t bytes) {
  constexpr int page_out = 21;  // MADV_PAGEOUT
  CHECK(os::advise(block, bytes, page_out) == 0);
}

}  // namespace

TEST_CASE("In the kernel's turn what was away comes back, whatever the budget") {
  DramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  const auto blocks = test::allocate_blocks(f, budget_runs);  // three budgets' worth
  test::fill_blocks(f, blocks);
  f.settle();
  f.pager.kernel_turn().begin();
  CHECK(test::wrong_blocks(f, blocks) == 0);
  f.settle();
  const terrace_statistics before = f.statistics();
  CHECK(before.stored_bytes == 0);
  CHECK(f.pager.budget().backed_bytes() >= blocks.size() * block_bytes);
  CHECK(before.resident_peak_bytes <= f.asked_budget());
  test::fill_blocks(f, blocks);
  f.advise(blocks[0], block_bytes, TERRACE_ADVISE_PAGE_OUT);
  f.settle();
  CHECK(f.statistics().evicted_bytes == before.evicted_bytes);
  f.check();

  f.pager.kernel_turn().end();
  f.settle();
  CHECK(f.pager.budget().backed_bytes() <= f.asked_budget());
  CHECK(test::wrong_blocks(f, blocks) == 0);
  f.settle();
  CHECK(f.pager.budget().backed_bytes() <= f.asked_budget());
  f.check();
}

TEST_CASE("What is leaving or in a frame when the kernel's turn begins stays") {
  DramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* const written = f.allocate_filled(block_bytes, 2);
  f.advise(written, block_bytes, TERRACE_ADVISE_COLD);
  f.settle();
  REQUIRE(f.state(written) == RunState::cached);
  std::byte* const block = f.allocate_filled(block_bytes, 1);
  f.advise(block, block_bytes, TERRACE_ADVISE_COLD);
  f.balance();
  f.pager.kernel_turn().begin();
  for (std::size_t i = 0; i < 3; ++i) CHECK(f.state(written + i * run_bytes) == RunState::resident);
  f.settle();
  for (std::size_t i = 0; i < 3; ++i) CHECK(f.state(block + i * run_bytes) == RunState::resident);
  CHECK(f.reads(block, 1, block_bytes));
  CHECK(f.reads(written, 2, block_bytes));
  f.pager.kernel_turn().end();
  f.check();
}

// Under a budget single pages come ahead of such touches.
TEST_CASE("In the kernel's turn a column of pages brings whole runs") {
  RawDramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  constexpr std::uint32_t runs = 3 * budget_runs;
  std::byte* const block = f.allocate_filled(runs * run_bytes, 1);
  f.settle();
  f.pager.kernel_turn().begin();
  f.with([&] {
    for (std::uint32_t i = 0; i < runs; ++i) block[i * run_bytes + 100 * os::page_bytes] ^= std::byte{1};
  });
  f.settle();
  for (std::uint32_t i = 0; i < runs; ++i) {
    const std::uint32_t n = f.run_of(block + i * run_bytes);
    CHECK(f.pager.runs().pages(n).in_place.is_all());
    CHECK_FALSE(f.pager.run(n).scattered);
  }
  f.pager.kernel_turn().end();
  f.check();
}

// Under a budget the same touches would say that all of each run is used, and that it is hot.
TEST_CASE("Nothing is learned in the kernel's turn") {
  const bool is_kernels = GENERATE(true, false);
  RawDramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  constexpr std::uint32_t runs = 3 * budget_runs;
  std::byte* const block = f.allocate_filled(runs * run_bytes, 1);
  f.settle();
  if (is_kernels) f.pager.kernel_turn().begin();
  std::uint32_t learned = 0;
  for (int pass = 0; pass < 3; ++pass)
    for (std::uint32_t i = 0; i < runs; ++i)
      f.with([&, i, pass] {
        for (std::uint32_t page = 0; page < pages_per_run; page += 2)  // never from the beginning on
          block[i * run_bytes + (page * 181 + 7) % pages_per_run * os::page_bytes] ^= std::byte(pass);
      });
  if (is_kernels) f.pager.kernel_turn().end();
  for (std::uint32_t i = 0; i < runs; ++i) {
    const Run& r = f.pager.run(f.run_of(block + i * run_bytes));
    learned += r.dense || r.turn != Turn::usual ? 1 : 0;
  }
  CHECK((learned > 0) != is_kernels);
  f.settle();
  CHECK(f.pager.budget().backed_bytes() <= f.asked_budget());
  f.check();
}

TEST_CASE("A child that is forked in the kernel's turn has a budget and all data") {
  DramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* const block = f.allocate_filled(block_bytes, 1);
  f.page_out(block, block_bytes);
  f.pager.kernel_turn().begin();
  CHECK(f.reads(block, 1, block_bytes));
  f.pager.forking().prepare(1'000'000);
  f.pager.follow_blocks();
  f.pager.forking().seal();
  CHECK(test::in_child([&] {
          f.pager.forking().after_in_child();
          if (!f.pager.standing().evicts() || f.pager.kernel_turn().is_on()) return 2;
          return test::holds(block, 1, block_bytes) ? 0 : 1;
        }) == 0);
  f.pager.forking().after_in_parent(true);
  CHECK(f.pager.kernel_turn().is_on());
  f.pager.kernel_turn().end();
  f.check();
}

// Pages of which the kernel has some, which move between addresses and frames as those do that are there.
TEST_CASE("What the kernel has swapped leaves and returns like all else") {
  if (!has_swap()) {
    std::printf("SKIP: the machine has no swap\n");
    return;
  }
  DramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  const auto blocks = test::allocate_blocks(f, budget_runs);
  test::fill_blocks(f, blocks);
  std::mt19937 random(1);
  for (int round = 0; round < 6; ++round) {
    f.pager.kernel_turn().begin();
    REQUIRE(test::wrong_blocks(f, blocks) == 0);
    for (std::byte* block : blocks)
      if (random() % 2 == 0) swap_out(block + random() % 512 * os::page_bytes, run_bytes);
    if (round % 2 == 0) test::fill_blocks(f, blocks);
    f.check();
    f.pager.kernel_turn().end();
    f.settle();
    CHECK(f.pager.budget().backed_bytes() <= f.asked_budget());
    for (std::byte* block : blocks)
      if (random() % 2 == 0) swap_out(block, block_bytes);
    REQUIRE(test::wrong_blocks(f, blocks) == 0);
    f.check();
  }
  CHECK(f.statistics().lost_runs == 0);
}

TEST_CASE("Blocks come and go in the kernel's turn, too") {
  DramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  auto blocks = test::allocate_blocks(f, budget_runs);
  test::fill_blocks(f, blocks);
  f.settle();
  f.pager.kernel_turn().begin();
  for (std::size_t i = 0; i < blocks.size(); i += 2) {
    f.release(blocks[i]);
    blocks[i] = f.allocate(block_bytes);
  }
  test::fill_blocks(f, blocks);
  CHECK(test::wrong_blocks(f, blocks) == 0);
  f.check();
  f.pager.kernel_turn().end();
  f.settle();
  CHECK(test::wrong_blocks(f, blocks) == 0);
  CHECK(f.pager.budget().backed_bytes() <= f.asked_budget());
  f.check();
}

}  // namespace terrace::liballoc
