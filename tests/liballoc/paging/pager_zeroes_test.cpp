// Pages of zeroes: they leave without a write, take no room on the tier, and come back as what they were.
#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "tests/liballoc/paging/pager_fixture.h"

namespace terrace::liballoc {
namespace {

using test::DramPager;
using test::RawDramPager;

std::byte* page_of(std::byte* block, std::size_t page) { return block + page * os::page_bytes; }

void clear(test::PagerFixture& f, std::byte* block, PageRange range) {
  f.with([&] { std::memset(block + range.offset(), 0, range.bytes()); });
}

// The run holds fill(seed) but for zeroes in `range`.
bool holds_but(test::PagerFixture& f, const std::byte* block, std::uint64_t seed, PageRange range) {
  std::vector<std::byte> expected(run_bytes);
  test::fill(expected.data(), seed, run_bytes);
  std::memset(expected.data() + range.offset(), 0, range.bytes());
  std::atomic<bool> right{false};
  f.with([&] { right = std::memcmp(block, expected.data(), run_bytes) == 0; });
  return right;
}

void touch(test::PagerFixture& f, const std::byte* at) {
  f.with([&] {
    const volatile std::byte read = *at;
    static_cast<void>(read);
  });
}

std::uint32_t in_place(test::PagerFixture& f, const std::byte* block) {
  return f.pager.runs().pages(f.run_of(block)).in_place.count();
}

}  // namespace

TEST_CASE("The sum of a page of zeroes is the known one, and nothing else is taken for one") {
  alignas(64) std::array<std::byte, os::page_bytes> page{};
  CHECK(PageSums::of_page(page.data()) == PageSums::of_zeroes);
  CHECK(PageSums::is_zeroes(page.data()));
  for (std::size_t at = 0; at < page.size(); ++at) {
    page[at] = std::byte{1};
    REQUIRE(!PageSums::is_zeroes(page.data()));
    page[at] = std::byte{0};
  }
}

TEST_CASE("Pages of zeroes leave without a write and come back", "[any_codec]") {
  RawDramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* const block = f.allocate_filled(run_bytes, 1);
  const PageRange zeroes{100, 400};
  clear(f, block, zeroes);
  f.page_out(block);
  CHECK(f.state(block) == RunState::stored);
  CHECK(f.statistics().written_bytes == run_bytes - zeroes.bytes());
  for (int round = 0; round < 2; ++round) {
    CHECK(holds_but(f, block, 1, zeroes));
    f.check();
    f.page_out(block);
  }
  CHECK(f.statistics().written_bytes == run_bytes - zeroes.bytes());  // and what is clean not again
  f.check();
}

// The tier still has what the page held before.
TEST_CASE("A page that is cleared after it was stored comes back as zeroes") {
  DramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* const block = f.allocate_filled(run_bytes, 1);
  f.page_out(block);
  const std::uint64_t written = f.statistics().written_bytes;
  const PageRange zeroes{7, 300};
  clear(f, block, zeroes);
  f.page_out(block);
  const bool may_be_compressed = test::compression_of_this_run() != Compression::off;  // which is made anew
  CHECK((may_be_compressed || f.statistics().written_bytes == written));
  CHECK(holds_but(f, block, 1, zeroes));
  f.page_out(block);
  f.write(block, 2);
  f.page_out(block);
  CHECK(f.reads(block, 2));
  f.check();
}

TEST_CASE("A run of zeroes takes no room on the tier, and can be used again") {
  DramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* const block = f.allocate_filled(run_bytes, 1);
  const bool was_stored = GENERATE(false, true);
  if (was_stored) f.page_out(block);
  const std::uint64_t written = f.statistics().written_bytes;
  clear(f, block, whole_run);
  f.page_out(block);
  CHECK(f.state(block) == RunState::empty);
  CHECK(f.statistics().written_bytes == written);
  CHECK(f.pager.extents().used_bytes() == 0);
  CHECK(test::resident_pages(block) == 0);
  f.check();
  CHECK(f.reads_zero(block));
  f.write(block, 2);
  f.page_out(block);
  CHECK(f.reads(block, 2));
  f.check();
}

// As of a run that is on the tier.
TEST_CASE("A touch here and there of what left as zeroes brings pages, not runs", "[any_codec]") {
  RawDramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  constexpr std::size_t runs = test::budget_runs / 2;  // a block that comes page by page
  std::byte* const block = f.allocate_filled(runs * run_bytes, 1);
  for (std::size_t n = 0; n < runs; ++n) clear(f, block + n * run_bytes, whole_run);
  f.page_out(block, runs * run_bytes);
  std::byte* const run = block + 3 * run_bytes;
  for (const std::size_t page : {300U, 17U, 444U}) touch(f, page_of(run, page));
  CHECK(in_place(f, run) == 3);
  f.check();
  CHECK(f.reads_zero(block, runs * run_bytes));  // a stream
  CHECK(in_place(f, block) == pages_per_run);
  f.check();
}

TEST_CASE("A huge page with zeroes in it is one again when it comes back, whatever is touched first",
          "[any_codec]") {
  RawDramPager f(MoverKind::move);
  if (!f.ready()) return;
  std::byte* const block = f.allocate_filled(run_bytes, 1);
  if (test::huge_bytes(block) == 0) {
    WARN("SKIP: the kernel gives no huge pages here");
    return;
  }
  const PageRange zeroes = GENERATE(PageRange{0, 200}, PageRange{64, 512}, PageRange{10, 100});
  clear(f, block, zeroes);
  f.page_out(block);
  REQUIRE(f.state(block) == RunState::stored);
  const std::uint64_t faults = f.statistics().faults;
  CHECK(holds_but(f, block, 1, zeroes));
  CHECK(f.statistics().faults == faults + 1);
  CHECK(test::huge_bytes(block) == run_bytes);
  f.check();
}

namespace {

// A run that zvc halves.
struct HalvedRun : test::Dram, test::PagerFixture {
  HalvedRun() : PagerFixture(MoverKind::move, dram, test::budget_runs, 1024 * test::mib, Compression::zvc) {
    if (!ready()) return;
    block = allocate(run_bytes);
    with([this] {
      const std::uint32_t one = 0x3F800000;
      for (std::size_t at = 0; at < run_bytes; at += 16) std::memcpy(block + at, &one, sizeof(one));
    });
  }
  void leave() {
    page_out(block);
    REQUIRE(pager.run(run_of(block)).slot_bytes < run_bytes);
  }
  // Zeroes in `range`, and nowhere else.
  bool is_clear_in(PageRange range) {
    std::atomic<bool> right{true};
    with([&] {
      for (std::uint32_t page = 0; page < pages_per_run; page += 33) {
        const bool is_clear = page >= range.first && page < range.end;
        if (test::is_zero(page_of(block, page), os::page_bytes) != is_clear) right = false;
      }
    });
    return right;
  }

  std::byte* block = nullptr;
};

}  // namespace

TEST_CASE("A compressed run with zeroes in it stays a huge page, also when more of it is cleared",
          "[any_codec]") {
  HalvedRun f;
  if (!f.ready()) return;
  if (test::huge_bytes(f.block) == 0) {
    WARN("SKIP: the kernel gives no huge pages here");
    return;
  }
  for (std::uint32_t end = 200; end < 500; end += 100) {
    const PageRange zeroes{100, end};
    clear(f, f.block, zeroes);
    f.leave();
    touch(f, page_of(f.block, end - 1));
    CHECK(test::huge_bytes(f.block) == run_bytes);
    CHECK(f.is_clear_in(zeroes));
  }
  clear(f, f.block, whole_run);  // some of it is stored as zeroes already
  f.page_out(f.block);
  CHECK(f.state(f.block) == RunState::empty);
  CHECK(f.pager.extents().used_bytes() == 0);
  CHECK(f.reads_zero(f.block));
  f.check();
}

TEST_CASE("A compressed run of which a part is discarded comes back, wherever it is touched", "[any_codec]") {
  HalvedRun f;
  if (!f.ready()) return;
  f.leave();
  const PageRange gone{200, 300};
  std::byte* const begin = page_of(f.block, gone.first);
  REQUIRE(os::advise(begin, gone.bytes(), MADV_DONTNEED) == 0);
  f.pager.forget(begin, page_of(f.block, gone.end));
  touch(f, page_of(f.block, 250));
  f.page_out(f.block);
  touch(f, f.block);
  CHECK(f.is_clear_in(gone));
  f.check();
}

// One is being read while another thread touches zeroes of the same run, which the device does not bring.
TEST_CASE("A touch of zeroes of a run that is on its way ends with it") {
  DramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  const bool is_small = GENERATE(false, true);
  std::byte* const block = f.allocate_filled(run_bytes, 1);
  const PageRange zeroes{256, 512};
  clear(f, block, zeroes);
  f.page_out(block);
  if (is_small) {  // in pages once, and so from then on
    touch(f, page_of(block, 200));
    touch(f, page_of(block, 300));
    f.page_out(block);
  }
  std::atomic<unsigned> wrong{0};
  f.with([&] {
    std::thread at_zeroes([&] { wrong += test::is_zero(page_of(block, 511), os::page_bytes) ? 0U : 1U; });
    std::thread beside([&] { wrong += test::is_zero(page_of(block, 300), os::page_bytes) ? 0U : 1U; });
    const volatile std::byte read = block[0];
    static_cast<void>(read);
    at_zeroes.join();
    beside.join();
  });
  CHECK(wrong == 0);
  CHECK(holds_but(f, block, 1, zeroes));
  f.check();
}

TEST_CASE("Pages with single ones of zeroes between them are written at once", "[any_codec]") {
  RawDramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* const block = f.allocate_filled(run_bytes, 1);
  for (std::uint32_t page = 1; page < pages_per_run; page += 2) clear(f, block, {page, page + 1});
  f.page_out(block);
  CHECK(f.statistics().written_bytes == run_bytes - os::page_bytes);  // but for the last
  f.with([&] {
    for (std::uint32_t page = 0; page < pages_per_run; ++page)
      CHECK(test::is_zero(page_of(block, page), os::page_bytes) == (page % 2 == 1));
  });
  f.check();
}

TEST_CASE("A child reads zeroes that its parent does not hold, and the parent what it wrote since",
          "[any_codec]") {
  RawDramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* const block = f.allocate_filled(2 * run_bytes, 1);
  clear(f, block, {30, 90});
  clear(f, block + run_bytes, whole_run);
  f.page_out(block, 2 * run_bytes);
  f.pager.forking().prepare(1'000'000);
  f.pager.forking().seal();
  CHECK(test::in_child([&] {
          if (!f.pager.forking().after_in_child()) return 2;  // it has something to restore
          return test::is_zero(block + run_bytes, run_bytes) ? 0 : 3;
        }) == 0);
  f.pager.forking().after_in_parent(true);
  f.write(block + run_bytes, 2);
  f.page_out(block, 2 * run_bytes);
  CHECK(holds_but(f, block, 1, {30, 90}));
  CHECK(f.reads(block + run_bytes, 2));
  f.check();
}

TEST_CASE("Runs of which pages are cleared and written at random stay right") {
  DramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  constexpr std::size_t runs = 3;
  std::byte* const block = f.allocate_filled(runs * run_bytes, 1);
  std::vector<std::byte> expected(runs * run_bytes);
  test::fill(expected.data(), 1, expected.size());
  test::Random random(11);
  const auto change = [&](std::size_t at, std::size_t bytes) {
    const auto value = static_cast<int>(random.below(3));  // a third of them zeroes
    std::memset(block + at, value, bytes);
    std::memset(expected.data() + at, value, bytes);
  };
  for (int i = 0; i < 150; ++i) {
    const std::size_t page = random.below(runs * pages_per_run);
    const std::size_t pages = 1 + random.below(i % 10 == 0 ? 600 : 20);
    const std::size_t at = page * os::page_bytes;
    const std::size_t bytes = std::min(pages * os::page_bytes, expected.size() - at);
    std::atomic<bool> right{false};
    f.with([&] {
      right = std::memcmp(block + at, expected.data() + at, bytes) == 0;
      change(at, bytes);
    });
    REQUIRE(right);
    if (i % 3 == 0) f.page_out(block + random.below(runs) * run_bytes);
    if (i % 20 == 0) f.check();
  }
  std::atomic<bool> right{false};
  f.with([&] { right = std::memcmp(block, expected.data(), expected.size()) == 0; });
  CHECK(right);
  f.check();
}

}  // namespace terrace::liballoc
