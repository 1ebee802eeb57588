// What blocks mean for their runs: shared runs, pins, discarded and zeroed memory, memory that is given back.
#include <catch2/catch.hpp>

#include "tests/liballoc/paging/pager_fixture.h"

namespace terrace::liballoc {

using test::allocate_blocks;
using test::any_kind;
using test::block_bytes;
using test::budget_runs;
using test::DramPager;
using test::fill_blocks;
using test::mib;
using test::wrong_blocks;

TEST_CASE("Blocks that share a run leave and return together, and go one by one") {
  DramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  constexpr std::size_t small = 256 * test::kib;
  std::vector<std::byte*> blocks;
  for (std::size_t i = 0; i < 8; ++i) blocks.push_back(f.allocate(small));
  for (std::size_t i = 0; i < 8; ++i) f.write(blocks[i], i, small);
  REQUIRE(f.run_of(blocks[0]) == f.run_of(blocks[7]));
  f.page_out(blocks[0], run_bytes);
  REQUIRE(f.state(blocks[0]) == RunState::stored);
  for (std::size_t i = 0; i < 4; ++i) f.release(blocks[i]);
  CHECK(f.state(blocks[4]) == RunState::stored);
  for (std::size_t i = 4; i < 8; ++i) CHECK(f.reads(blocks[i], i, small));
  f.page_out(blocks[4] - 4 * small, run_bytes);
  for (std::size_t i = 4; i < 8; ++i) f.release(blocks[i]);
  f.check();
  CHECK(f.pager.extents().used_bytes() == 0);
}

TEST_CASE("Pinned runs are never evicted") {
  DramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* pinned = f.allocate_filled(block_bytes, 99);
  {
    f.pager.follow_blocks();
    f.pager.pins().pin(f.run_of(pinned), f.run_of(pinned) + 2);
    f.pager.pins().pin(f.run_of(pinned), f.run_of(pinned));
  }
  const std::vector<std::byte*> blocks = allocate_blocks(f, 20);
  fill_blocks(f, blocks);
  f.advise(pinned, block_bytes, TERRACE_ADVISE_PAGE_OUT);
  f.settle();
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(f.state(pinned + i * run_bytes) == RunState::resident);
    CHECK(test::resident_pages(pinned + i * run_bytes) == run_bytes / os::page_bytes);
  }
  {
    f.pager.follow_blocks();
    f.pager.pins().unpin(f.run_of(pinned), f.run_of(pinned) + 2);
  }
  f.page_out(pinned, block_bytes);
  CHECK(f.state(pinned) == RunState::resident);  // pinned twice
  CHECK(f.state(pinned + run_bytes) == RunState::stored);
  {
    f.pager.follow_blocks();
    f.pager.pins().unpin(f.run_of(pinned), f.run_of(pinned));
  }
  f.page_out(pinned, block_bytes);
  CHECK(f.state(pinned) == RunState::stored);
  CHECK(f.reads(pinned, 99, block_bytes));
  CHECK(wrong_blocks(f, blocks) == 0);
}

namespace {

// How many runs of the block have left their address.
std::size_t gone(DramPager& f, const std::byte* block, std::size_t runs) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < runs; ++i)
    count += f.state(block + i * run_bytes) != RunState::resident ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("What is said to be cold leaves first, long-lived data when the rest has left") {
  DramPager f(any_kind(), 44);  // so that the three fit whatever the mover and the codec keep for themselves
  if (!f.ready()) return;
  INFO(f.mover.name());
  constexpr std::size_t runs = 6;
  std::byte* weights = f.allocate(runs * run_bytes, false, TERRACE_HINT_LONG_LIVED);
  f.write(weights, 1, runs * run_bytes);  // the oldest
  std::byte* plain = f.allocate_filled(runs * run_bytes, 2);
  std::byte* cold = f.allocate(runs * run_bytes, false, TERRACE_HINT_COLD);
  f.write(cold, 3, runs * run_bytes);  // the youngest
  f.settle();
  REQUIRE(gone(f, weights, runs) + gone(f, plain, runs) + gone(f, cold, runs) == 0);
  std::vector<std::byte*> more;
  const auto press = [&] { more.push_back(f.allocate_filled(run_bytes, 10 + more.size())); };
  while (gone(f, cold, runs) < runs) {
    press();
    const std::size_t others = gone(f, weights, runs) + gone(f, plain, runs);
    REQUIRE((others == 0 || gone(f, cold, runs) == runs));
  }
  while (gone(f, plain, runs) < runs) press();
  CHECK(gone(f, weights, runs) == 0);
  while (gone(f, weights, runs) < runs && more.size() < 200) press();
  CHECK(gone(f, weights, runs) == runs);  // a hint is no promise
  CHECK(f.reads(cold, 3, runs * run_bytes));
  CHECK(f.reads(plain, 2, runs * run_bytes));
  CHECK(f.reads(weights, 1, runs * run_bytes));
}

// MOVE refuses what is protected otherwise than its frame.
TEST_CASE("What is cold and could not leave is cold still, and did not stand in the way") {
  DramPager f(MoverKind::move);
  if (!f.ready()) return;
  std::byte* cold = f.allocate(run_bytes, false, TERRACE_HINT_COLD);
  f.write(cold, 1);
  REQUIRE(os::protect(cold, run_bytes, PROT_READ) == 0);
  const auto evictions = [&] { return f.statistics().evictions; };
  const auto press_until_one_leaves = [&] {
    for (const auto before = evictions(); evictions() == before;) f.allocate_filled(run_bytes, 2);
  };
  press_until_one_leaves();
  CHECK(f.state(cold) == RunState::resident);
  REQUIRE(os::protect(cold, run_bytes, PROT_READ | PROT_WRITE) == 0);
  f.page_out(cold);
  CHECK(f.reads(cold, 1));
  press_until_one_leaves();
  CHECK(f.state(cold) != RunState::resident);
}

TEST_CASE("A run that becomes wholly a block's as that grows takes the block's hints") {
  DramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* grows =
      f.allocate(run_bytes + run_bytes / 2, false, TERRACE_HINT_COLD | TERRACE_HINT_LONG_LIVED);
  f.write(grows, 1, run_bytes + run_bytes / 2);
  const std::uint32_t n = f.run_of(grows);
  REQUIRE((f.pager.run(n).cold && !f.pager.run(n + 1).cold));
  f.grow(grows, 2 * run_bytes);
  CHECK(f.pager.run(n + 1).cold);
  CHECK(f.pager.run(n + 1).long_lived);
  CHECK(f.pager.run(n + 1).heat == most_heat);
  f.check();
}

TEST_CASE("More spared runs than are looked at in one go do not make the budget give way") {
  DramPager f(any_kind(), 160);
  if (!f.ready()) return;
  INFO(f.mover.name());
  const std::uint64_t budget = f.pager.budget().bytes();
  std::byte* weights = f.allocate(140 * run_bytes, false, TERRACE_HINT_LONG_LIVED);
  f.write(weights, 1, 140 * run_bytes);
  std::byte* more = f.allocate_filled(40 * run_bytes, 2);
  CHECK(f.pager.budget().bytes() == budget);
  CHECK(f.most_backed() <= f.asked_budget());
  CHECK(f.reads(weights, 1, 140 * run_bytes));
  CHECK(f.reads(more, 2, 40 * run_bytes));
}

TEST_CASE("Pins add up, and leave the pager enough of the budget to work with") {
  DramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  const auto budget = static_cast<std::uint32_t>(f.pager.budget().bytes() / run_bytes);
  const std::uint32_t half = budget / 2;
  std::byte* block = f.allocate(budget * run_bytes);
  const std::uint32_t first = f.run_of(block);
  {
    f.pager.follow_blocks();
    CHECK_FALSE(f.pager.pins().can_pin(first, first + budget - 1));
    CHECK(f.pager.pins().can_pin(first, first + half - 1));
    CHECK(f.pager.pins().can_pin(first + half, first + budget - 1));
    f.pager.pins().pin(first, first + half - 1);
    CHECK_FALSE(f.pager.pins().can_pin(first + half, first + budget - 1));
    CHECK(f.pager.pins().can_pin(first, first + half - 1));  // no more than there is already
    f.pager.pins().pin(first, first);
    f.pager.pins().unpin(first, first + half - 1);
    CHECK(f.pager.pins().can_pin(first + half, first + budget - 1));
    f.pager.pins().pin(first, first + half - 1);
  }
  f.release(block);  // and with it its pins
  std::byte* next = f.allocate(budget * run_bytes);
  f.pager.follow_blocks();
  CHECK(f.pager.pins().can_pin(f.run_of(next), f.run_of(next) + budget - half - 1));
}

TEST_CASE("A freed block takes its own pins out of a shared run and leaves its neighbour's") {
  DramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  constexpr std::size_t small = 512 * test::kib;
  std::byte* stays = f.allocate_filled(small, 1);
  std::byte* goes = f.allocate_filled(small, 2);
  const std::uint32_t n = f.run_of(stays);
  REQUIRE(f.run_of(goes) == n);
  {
    f.pager.follow_blocks();
    const std::uint32_t stays_id = f.space.live_block_at(stays);
    const std::uint32_t goes_id = f.space.live_block_at(goes);
    f.pager.pins().pin(n, n, stays_id);
    f.pager.pins().pin(n, n, goes_id);
    f.pager.pins().pin(n, n, goes_id);
    CHECK(f.pager.run(n).pins == 3);
    f.pager.pins().unpin(n, n, goes_id);
    REQUIRE(os::protect(goes, small, PROT_READ) == 0);
  }
  f.release(goes);
  CHECK(f.pager.run(n).pins == 1);
  std::byte* next = f.allocate_filled(small, 3);  // dies of SIGSEGV where the protection is left behind
  CHECK(next == goes);
  CHECK(f.reads(stays, 1, small));
  f.pager.follow_blocks();
  f.pager.pins().unpin(n, n, f.space.live_block_at(next));  // nothing is its own
  CHECK(f.pager.run(n).pins == 1);
  f.pager.pins().unpin(n, n, f.space.live_block_at(stays));
  CHECK(f.pager.run(n).pins == 0);
  f.pager.check_invariants();
}

TEST_CASE("Locked pages hold their run until the last of them is unlocked, however often they were locked") {
  DramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* const block = f.allocate_filled(2 * run_bytes, 1);
  const std::uint32_t n = f.run_of(block);
  const std::byte* const end = block + run_bytes + 3 * os::page_bytes;
  {
    f.pager.follow_blocks();
    for (int i = 0; i < 3; ++i) REQUIRE(f.pager.pins().lock(block + os::page_bytes, end) == 0);
    f.pager.pins().pin(n, n);
    CHECK(f.pager.run(n).pins == 2);
    CHECK(f.pager.run(n + 1).pins == 1);
    CHECK(f.pager.pins().unlock(block, end - os::page_bytes));
    CHECK_FALSE(f.pager.pins().unlock(block, end - os::page_bytes));
    CHECK(f.pager.run(n).pins == 1);
    CHECK(f.pager.run(n + 1).pins == 1);
    f.pager.pins().unpin(n, n);
  }
  f.page_out(block, 2 * run_bytes);
  CHECK(f.state(block) == RunState::stored);
  CHECK(f.state(block + run_bytes) == RunState::resident);
  f.release(block);
  CHECK(f.pager.run(n + 1).pins == 0);
  f.pager.follow_blocks();
  f.pager.pins().unlock_all(f.space.top());
  CHECK(f.pager.run(n + 1).pins == 0);
}

TEST_CASE("A freed block takes its own locks out of a shared run and leaves its neighbour's") {
  DramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  constexpr std::size_t small = 512 * test::kib;
  std::byte* const stays = f.allocate_filled(small, 1);
  std::byte* const goes = f.allocate_filled(small, 2);
  const std::uint32_t n = f.run_of(stays);
  REQUIRE(f.run_of(goes) == n);
  {
    f.pager.follow_blocks();
    REQUIRE(f.pager.pins().lock(stays, stays + os::page_bytes) == 0);
    REQUIRE(f.pager.pins().lock(goes, goes + small) == 0);
    CHECK(f.pager.run(n).pins == 1);
  }
  f.release(goes);
  f.pager.follow_blocks();
  CHECK_FALSE(f.pager.pins().unlock(goes, goes + small));
  CHECK(f.pager.run(n).pins == 1);
  CHECK(f.pager.pins().unlock(stays, stays + small));
  CHECK(f.pager.run(n).pins == 0);
}

TEST_CASE("A pinned tail that becomes an inner run takes no pin from the next one's neighbour") {
  DramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* grows = f.allocate_filled(run_bytes + run_bytes / 2, 1);
  const std::uint32_t n = f.run_of(grows);
  {
    f.pager.follow_blocks();
    const std::uint32_t id = f.space.live_block_at(grows);
    f.pager.pins().pin(n, n + 1, id);
  }
  f.grow(grows, 2 * run_bytes + run_bytes / 2);
  std::byte* neighbour = f.allocate_filled(run_bytes / 4, 2);
  REQUIRE(f.run_of(neighbour) == n + 2);
  {
    f.pager.follow_blocks();
    f.pager.pins().pin(n + 2, n + 2, f.space.live_block_at(neighbour));
  }
  f.release(grows);
  CHECK(f.pager.run(n + 2).pins == 1);
  f.check();
}

TEST_CASE("Runs that the program discarded come back as zeroes") {
  DramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.allocate_filled(4 * run_bytes, 1);
  f.page_out(block, 2 * run_bytes);
  f.advise(block + 2 * run_bytes, run_bytes, TERRACE_ADVISE_COLD);
  f.settle();
  {
    f.pager.follow_blocks();
    f.pager.forget(block + run_bytes, block + 3 * run_bytes);
  }
  f.check();
  CHECK(f.reads(block, 1));
  CHECK(f.reads_zero(block + run_bytes, 2 * run_bytes));
  f.write(block + run_bytes, 7);
  CHECK(f.reads(block + run_bytes, 7));
  f.check();
}

TEST_CASE("A thread that waits for a run that is discarded meanwhile sees zeroes") {
  DramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.allocate_filled(run_bytes, 1);
  f.page_out(block);
  std::atomic<bool> zero{false};
  bool discarded = false;
  f.with([&] { zero = test::is_zero(block, os::page_bytes); },
         [&] {
           f.serve_faults();
           if (discarded) return f.pump();
           f.pager.follow_blocks();
           if (!f.pager.run(f.run_of(block)).waiting) return;
           f.pager.forget(block, block + run_bytes);
           discarded = true;
         });
  CHECK(zero);
  f.check();
}

TEST_CASE("Memory that went back to the kernel reads as zero at its next touch, whatever backs it") {
  DramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* dirty = f.allocate_filled(block_bytes, 1);
  std::byte* other = f.allocate_filled(block_bytes, 2);
  f.release(dirty);
  f.pager.follow_blocks();
  CHECK(f.pager.trim(0) == 3);
  std::byte* clean = f.allocate(block_bytes, true);
  REQUIRE(clean == dirty);
  f.release(other);  // its memory is dirty, and the next to be used
  CHECK(f.reads_zero(clean, block_bytes));
}

TEST_CASE("Trim gives recycled memory back") {
  DramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.allocate_filled(8 * run_bytes, 1);
  f.release(block);
  f.pager.follow_blocks();
  const std::uint64_t before = f.pager.budget().backed_bytes();
  CHECK(f.pager.runs().lists().recycled.size() == 8);
  CHECK(f.pager.trim(5) == 3);
  CHECK(f.pager.runs().lists().recycled.size() == 5);
  CHECK(f.pager.budget().backed_bytes() == before - 3 * run_bytes);
  CHECK(f.pager.trim(0) >= 5);
  CHECK(f.pager.runs().lists().recycled.size() == 0);
  CHECK(f.pager.budget().backed_bytes() == 0);
  CHECK(test::resident_pages(block) == 0);
  f.pager.check_invariants();
}

TEST_CASE("Memory from before paging began is paged like any other") {
  test::Dram dram;
  test::Region heap(256 * mib);
  AddressSpace space;
  BlockQueue queue;
  Lock lock;
  FreeRuns free_runs(&lock, &space);
  Pager pager;
  Mover mover;
  if (!test::open_or_skip(mover, any_kind())) return;
  INFO(mover.name());
  REQUIRE((space.initialise(heap.base(), 256 * mib) == 0 && queue.initialise() == 0));
  REQUIRE(pager.initialise(heap.base(), 256 * mib, space.most_records(), &queue, &free_runs) == 0);
  REQUIRE(pager.activate(&mover, &dram.dram, nullptr, budget_runs * run_bytes) == 0);
  const std::uint32_t id = space.allocate(block_bytes, 64);
  test::fill(space.address(id), 1, block_bytes);
  CHECK(pager.budget().backed_bytes() == 0);
  pager.blocks().learn(id, {.first = space.block(id).first, .granules = space.block(id).granules});
  // A thread was quicker: it has a block above all that was learned, and has begun to write to it.
  const std::uint32_t late = space.allocate(2 * run_bytes, run_bytes);
  const Block of_late = space.block(late);
  queue.push({.block = late, .first = of_late.first, .granules = of_late.granules});
  test::fill(space.address(late), 2, run_bytes / 2);
  REQUIRE(pager.watch() == 0);
  pager.know_top(space.top());
  pager.take_over();
  pager.follow_blocks();
  CHECK(pager.budget().backed_bytes() >= block_bytes + run_bytes / 2);  // a huge page is more
  CHECK(pager.run(pager.runs().heap().run_of(space.address(late))).state == RunState::resident);
  queue.push({.block = late, .change = BlockChange::freed});
  pager.follow_blocks();
  space.free(late);
  pager.advise(0, 2, TERRACE_ADVISE_PAGE_OUT);
  while (!pager.is_quiet()) {
    pager.balance();
    pager.handle_completions();
  }
  CHECK(pager.run(0).state == RunState::stored);
  pager.check_invariants();
  queue.push({.block = id, .change = BlockChange::freed});
  pager.follow_blocks();
  space.free(id);
  CHECK(pager.extents().used_bytes() == 0);
  pager.trim(0);
  CHECK(pager.budget().backed_bytes() == 0);
  mover.close();
}

}  // namespace terrace::liballoc
