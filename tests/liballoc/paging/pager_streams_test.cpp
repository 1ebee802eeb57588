// What looks like a stream that goes on, and what does not any more.
#include <catch2/catch.hpp>

#include "liballoc/paging/policy/recent_arrivals.h"
#include "tests/liballoc/paging/pager_fixture.h"
#include "tiers/adaptors/slow_adaptor.h"

namespace terrace::liballoc {
namespace {

using test::RawDramPager;
using test::resident_pages;

void touch(test::PagerFixture& f, std::byte* block, std::size_t page) {
  f.with([&] { static_cast<void>(*reinterpret_cast<volatile std::byte*>(block + page * os::page_bytes)); });
}

}  // namespace

TEST_CASE("What has come is recent among so many, and for so many touches") {
  RecentArrivals recent;
  for (std::uint32_t arrivals = 0; arrivals < 1000; ++arrivals) recent.touched(arrivals);
  CHECK(recent.has(999, 1));
  CHECK_FALSE(recent.has(998, 1));
  CHECK(recent.has(992, 8));
  CHECK_FALSE(recent.has(991, 8));
  CHECK(recent.has(1000, 1));  // came since the last touch
  for (std::uint32_t touch = 1; touch < RecentArrivals::most_touches; ++touch) recent.touched(999);
  CHECK(recent.has(999, 8));
  recent.touched(999);
  CHECK_FALSE(recent.has(999, 8));
  recent.touched(1000);
  CHECK(recent.has(1000, 8));
  CHECK_FALSE(recent.has(999, 8));
}

TEST_CASE("Many that have come between two touches are recent together") {
  RecentArrivals recent;
  recent.touched(5000);
  CHECK(recent.has(5000, RecentArrivals::most_kept));
  CHECK(recent.has(5001 - RecentArrivals::most_kept, RecentArrivals::most_kept));
  CHECK_FALSE(recent.has(5000 - RecentArrivals::most_kept, RecentArrivals::most_kept));
}

TEST_CASE("What came before many touches of single pages does not bring its neighbour", "[any_codec]") {
  RawDramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  const bool is_long_ago = GENERATE(false, true);
  std::byte* const block = f.allocate_filled(2 * run_bytes, 1);
  constexpr std::size_t others = test::budget_runs / 2;  // so many that none comes as a whole
  std::byte* const other = f.allocate_filled(others * run_bytes, 2);
  f.page_out(other, others * run_bytes);
  f.page_out(block, 2 * run_bytes);
  CHECK(f.reads(block, 1, 2 * run_bytes));
  f.page_out(block, 2 * run_bytes);
  touch(f, block + run_bytes, 0);
  REQUIRE(resident_pages(block + run_bytes) == pages_per_run);
  const std::uint32_t touches = is_long_ago ? 2 * RecentArrivals::most_touches : 2;
  test::Random random(5);
  for (std::uint32_t i = 0; i < touches; ++i) touch(f, other, random.below(others * pages_per_run));
  touch(f, block, 300);
  CHECK(resident_pages(block) == (is_long_ago ? 1 : pages_per_run));
  CHECK(f.reads(block, 1, 2 * run_bytes));
  CHECK(f.reads(other, 2, others * run_bytes));
  f.check();
}

TEST_CASE("The first page of a run that comes in pages is one like any other", "[any_codec]") {
  RawDramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* const block = f.allocate_filled(run_bytes, 1);
  f.page_out(block);
  touch(f, block, 300);
  touch(f, block, 0);
  CHECK(resident_pages(block) == 2);
  CHECK(f.reads(block, 1));
  f.page_out(block);
  touch(f, block, 0);
  CHECK(resident_pages(block) == pages_per_run);
  f.check();
}

// A stream that is as fast as the drive touches each run where it is on its way: the same place in each, as a
// sweep over the rows of a matrix does.
TEST_CASE("A stream that waits for each of its runs is no stride", "[any_codec]") {
  constexpr std::size_t runs = 4 * test::budget_runs;
  test::Dram dram;
  tiers::SlowAdaptor slow(dram.dram, {.latency_ns = 1'000'000, .bytes_per_second = 4'000'000'000});
  REQUIRE(slow.open() == 0);
  test::PagerFixture f(test::any_kind(), slow, test::budget_runs, 1024 * test::mib, Compression::off);
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* const block = f.allocate_filled(runs * run_bytes, 1);
  for (unsigned pass = 0; pass < 3; ++pass) {
    const std::uint64_t faults = f.statistics().faults;
    const std::uint64_t read = f.statistics().read_bytes;
    CHECK(f.reads(block, 1, runs * run_bytes));
    f.settle();
    CHECK(f.statistics().faults - faults <= runs * 5 / 4);  // one run in 16 is tried, by four touches
    CHECK(f.statistics().read_bytes - read <= runs * run_bytes * 9 / 8);
  }
  f.check();
}

}  // namespace terrace::liballoc
