// Every state of a run can be left by a touch, by advice and by free, each with a double for the tier: what
// it costs, and that the accounts are level afterwards.
#include <atomic>
#include <catch2/catch.hpp>

#include "tests/liballoc/paging/pager_fixture.h"
#include "tiers/adaptors/trace_adaptor.h"

namespace terrace::liballoc {

using test::any_kind;
using test::block_bytes;
using test::budget_runs;
using test::DramPager;
using test::PagerFixture;

TEST_CASE("A touch of a staged run takes it back") {
  DramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.allocate_filled(run_bytes, 1);
  f.advise(block, run_bytes, TERRACE_ADVISE_COLD);
  REQUIRE(f.state(block) == RunState::staged);
  std::atomic<bool> right{false};
  f.with([&] { right = test::holds(block, 1); }, [&] { f.serve_faults(); });
  CHECK(right);
  CHECK(f.state(block) == RunState::resident);
  CHECK(f.statistics().cancelled_evictions == 1);
  CHECK(f.pager.extents().used_bytes() == 0);
  f.check();
}

TEST_CASE("A touch of a run that is being written takes it back") {
  DramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.allocate_filled(run_bytes, 1);
  f.advise(block, run_bytes, TERRACE_ADVISE_COLD);
  f.balance();
  REQUIRE(f.state(block) == RunState::writing);
  f.with([&] { test::fill(block, 2); }, [&] { f.serve_faults(); });
  CHECK(f.state(block) == RunState::resident);
  CHECK(f.statistics().cancelled_evictions == 1);
  f.complete();
  f.check();
  CHECK(f.pager.extents().used_bytes() == f.space_taken(block, run_bytes));
  CHECK(f.reads(block, 2));
  f.page_out(block);  // what was written meanwhile is the older
  CHECK(f.reads(block, 2));
  f.release(block);
  CHECK(f.pager.extents().used_bytes() == 0);
}

TEST_CASE("A touch of a run that is being written waits for the write when there is no frame") {
  DramPager f(MoverKind::mremap);
  if (!f.ready()) return;
  std::byte* block = f.allocate_filled(run_bytes, 1);
  f.advise(block, run_bytes, TERRACE_ADVISE_COLD);
  f.balance();
  REQUIRE(f.state(block) == RunState::writing);
  {
    f.pager.follow_blocks();
    f.pager.trim(0);
    f.pager.set_budget(run_bytes);
  }
  std::atomic<bool> right{false};
  int faults = 0;
  f.with([&] { right = test::holds(block, 1); },
         [&] {
           f.serve_faults();
           if (++faults > 3) f.complete();
         });
  CHECK(right);
  CHECK(f.state(block) == RunState::resident);
  f.finish_transfers();  // of a compressed copy, for which the touch did not wait
  CHECK(f.pager.extents().used_bytes() == f.space_taken(block, run_bytes));
  f.check();
}

TEST_CASE("A cached run comes back without a read") {
  test::Dram dram;
  tiers::TraceAdaptor trace(dram.dram);
  PagerFixture f(any_kind(), trace, budget_runs);
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.allocate_filled(block_bytes, 1);
  f.advise(block, block_bytes, TERRACE_ADVISE_COLD);
  f.settle();
  for (std::size_t i = 0; i < 3; ++i) CHECK(f.state(block + i * run_bytes) == RunState::cached);
  CHECK(f.pager.extents().used_bytes() == f.space_taken(block, block_bytes));
  CHECK(f.reads(block, 1, block_bytes));
  CHECK(f.statistics().prefetch_hits == 3);
  CHECK(f.statistics().read_bytes == 0);
  f.check();
}

// Nothing wakes the agent for it.
TEST_CASE("A read that is over as soon as it is submitted is served at once") {
  DramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.allocate_filled(run_bytes, 1);
  f.page_out(block);
  REQUIRE(f.state(block) == RunState::stored);
  f.pager.handle_fault({.address = block, .write_protected = false});
  f.pump();
  CHECK(f.state(block) == RunState::resident);
  f.check();
}

TEST_CASE("PAGE_OUT gives the memory back, WILL_NEED fetches it ahead of the touch") {
  DramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.allocate_filled(block_bytes, 1);
  f.page_out(block, block_bytes);
  for (std::size_t i = 0; i < 3; ++i) CHECK(f.state(block + i * run_bytes) == RunState::stored);
  CHECK(f.statistics().stored_bytes == block_bytes);
  CHECK(test::resident_pages(block) == 0);
  {
    f.pager.follow_blocks();
    f.pager.trim(0);
    CHECK(f.pager.budget().backed_bytes() == 0);
  }
  f.advise(block, block_bytes, TERRACE_ADVISE_WILL_NEED);
  f.settle();
  for (std::size_t i = 0; i < 3; ++i) CHECK(f.state(block + i * run_bytes) == RunState::cached);
  CHECK(f.statistics().read_bytes == f.extent_bytes(block, block_bytes));
  f.with([&] { test::fill(block, 2, block_bytes); }, [&] { f.serve_faults(); });  // no transfer is needed
  CHECK(f.reads(block, 2, block_bytes));
  f.check();
}

TEST_CASE("COLD then PAGE_OUT drops the cached copy") {
  DramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.allocate_filled(run_bytes, 1);
  f.advise(block, run_bytes, TERRACE_ADVISE_COLD);
  f.settle();
  REQUIRE(f.state(block) == RunState::cached);
  f.advise(block, run_bytes, TERRACE_ADVISE_PAGE_OUT);
  CHECK(f.state(block) == RunState::stored);
  CHECK(f.reads(block, 1));
  f.check();
}

TEST_CASE("Freeing a run in any state leaves the accounts right") {
  DramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.allocate_filled(run_bytes, 1);
  const RunState wanted = GENERATE(RunState::resident, RunState::staged, RunState::writing, RunState::cached,
                                   RunState::stored, RunState::reading);
  INFO("state " << static_cast<int>(wanted));
  if (wanted == RunState::staged || wanted == RunState::writing || wanted == RunState::cached)
    f.advise(block, run_bytes, TERRACE_ADVISE_COLD);
  if (wanted == RunState::writing) f.balance();
  if (wanted == RunState::cached) f.settle();
  if (wanted == RunState::stored || wanted == RunState::reading) f.page_out(block);
  if (wanted == RunState::reading) {
    f.advise(block, run_bytes, TERRACE_ADVISE_WILL_NEED);
    f.balance();
  }
  REQUIRE(f.state(block) == wanted);
  f.release(block);
  f.check();
  f.finish_transfers();
  f.check();
  f.settle();
  CHECK(f.pager.extents().used_bytes() == 0);
  CHECK(f.dram.space().used_bytes == 0);
  // The address serves the next block.
  std::byte* next = f.allocate_filled(run_bytes, 2);
  CHECK(f.reads(next, 2));
  f.check();
}

TEST_CASE("Freed and allocated again while its transfer is under way") {
  DramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.allocate_filled(run_bytes, 1);
  SECTION("while written") { f.advise(block, run_bytes, TERRACE_ADVISE_COLD); }
  SECTION("while read") {
    f.page_out(block);
    f.advise(block, run_bytes, TERRACE_ADVISE_WILL_NEED);
  }
  f.balance();
  f.release(block);
  std::byte* next = f.allocate(run_bytes);
  REQUIRE(next == block);
  f.with([&] { test::fill(next, 2); }, [&] { f.serve_faults(); });
  f.finish_transfers();
  f.check();
  CHECK(f.reads(next, 2));
  CHECK(f.pager.extents().used_bytes() == 0);
}

}  // namespace terrace::liballoc
