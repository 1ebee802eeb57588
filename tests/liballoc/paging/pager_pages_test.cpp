// Pages of a run that part: touches that are scattered move pages, what was not changed is not written again,
// and what the program discards is gone wherever it lay.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "tests/liballoc/paging/pager_fixture.h"
#include "tiers/adaptors/failing_adaptor.h"

namespace terrace::liballoc {
namespace {

using test::DramPager;
using test::RawDramPager;
using test::word_of;

constexpr std::size_t words_per_page = os::page_bytes / sizeof(std::uint64_t);

std::uint64_t* words(std::byte* block) { return reinterpret_cast<std::uint64_t*>(block); }

// The first word of a page.
bool has_word(test::PagerFixture& f, std::byte* block, std::size_t page, std::uint64_t seed) {
  std::atomic<bool> right{false};
  f.with([&] { right = words(block)[page * words_per_page] == word_of(seed, page * words_per_page); });
  return right;
}

}  // namespace

TEST_CASE("What came back and was not changed leaves without a write") {
  DramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* const block = f.allocate_filled(3 * run_bytes, 1);
  f.page_out(block, 3 * run_bytes);
  const std::uint64_t written = f.statistics().written_bytes;
  for (int i = 0; i < 3; ++i) {
    REQUIRE(f.reads(block, 1, 3 * run_bytes));
    f.page_out(block, 3 * run_bytes);
  }
  CHECK(f.state(block) == RunState::stored);
  CHECK(f.statistics().written_bytes == written);
  CHECK(f.reads(block, 1, 3 * run_bytes));
  f.check();
}

TEST_CASE("Of what came back only the changed pages are written", "[any_codec]") {
  RawDramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* const block = f.allocate_filled(run_bytes, 1);
  f.page_out(block);
  const std::uint64_t written = f.statistics().written_bytes;
  REQUIRE(f.reads(block, 1));
  f.with([&] { words(block)[100 * words_per_page] = 7; });
  f.page_out(block);
  CHECK(f.statistics().written_bytes == written + os::page_bytes);
  f.with([&] {
    CHECK(words(block)[100 * words_per_page] == 7);
    words(block)[100 * words_per_page] = word_of(1, 100 * words_per_page);
  });
  CHECK(f.reads(block, 1));
  f.check();
}

TEST_CASE("A scattered touch brings one page, and what streams brings the run", "[any_codec]") {
  RawDramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* const block = f.allocate_filled(2 * run_bytes, 1);
  f.page_out(block, 2 * run_bytes);
  const std::uint64_t before = f.statistics().read_bytes;
  for (const std::size_t page : {300U, 17U, 444U}) CHECK(has_word(f, block, page, 1));
  CHECK(f.statistics().read_bytes == before + 3 * os::page_bytes);
  CHECK(test::resident_pages(block) == 3);
  CHECK(f.state(block) == RunState::resident);
  f.check();
  CHECK(f.reads(block + run_bytes, 0) == false);  // other words than these: only the touch counts
  CHECK(test::resident_pages(block + run_bytes) == run_bytes / os::page_bytes);
  CHECK(f.reads(block, 1, 2 * run_bytes));
  f.check();
}

TEST_CASE("What came as a whole does so again, wherever it is touched, where its neighbour has just come",
          "[any_codec]") {
  RawDramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* const block = f.allocate_filled(2 * run_bytes, 1);
  f.page_out(block, 2 * run_bytes);
  CHECK(f.reads(block, 1, 2 * run_bytes));  // from its beginning: a stream
  f.page_out(block, 2 * run_bytes);
  CHECK(has_word(f, block, 300, 1));
  CHECK(test::resident_pages(block) == 1);
  f.page_out(block, 2 * run_bytes);
  CHECK(has_word(f, block + run_bytes, 0, 0) == false);  // other words than these: only the touch counts
  CHECK(has_word(f, block, 300, 1));
  CHECK(test::resident_pages(block) == pages_per_run);
  CHECK(f.reads(block, 1, 2 * run_bytes));
  f.check();
}

TEST_CASE("A run that came back page by page, and is used all over, is read ahead like any other",
          "[any_codec]") {
  RawDramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* const block = f.allocate_filled(2 * run_bytes, 1);
  std::byte* const second = block + run_bytes;
  f.page_out(block, 2 * run_bytes);
  CHECK(has_word(f, second, 300, 0) == false);  // other words than these: only the touch counts
  CHECK(f.reads(block, 1, 2 * run_bytes));
  REQUIRE(f.pager.runs()[f.run_of(second)].dense);
  f.page_out(block, 2 * run_bytes);
  CHECK(has_word(f, block, 0, 1));
  f.settle();
  // Where a worker was done with it first, it went under its address beside its neighbour.
  const bool is_back = f.state(second) == RunState::resident && test::resident_pages(second) == pages_per_run;
  CHECK((is_back || f.state(second) == RunState::cached));
  CHECK(f.reads(block, 1, 2 * run_bytes));
  f.check();
}

TEST_CASE("Of a run that comes as a whole what is there already is not read again", "[any_codec]") {
  RawDramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  constexpr std::size_t runs = test::budget_runs / 2;  // a block that comes page by page
  std::byte* const block = f.allocate(runs * run_bytes);
  std::byte* const last = block + (runs - 1) * run_bytes;  // nothing follows it
  f.write(block, 1, (runs - 1) * run_bytes);
  f.write(last, 2);
  f.page_out(block, runs * run_bytes);
  constexpr std::uint32_t there = 24;
  f.with([&] {
    for (std::size_t page = 100 + there; page-- > 100;)
      CHECK(words(last)[page * words_per_page] == word_of(2, page * words_per_page));
  });
  f.settle();
  REQUIRE(f.pager.runs().pages(f.run_of(last)).in_place.count() == there);
  const std::uint64_t before = f.statistics().read_bytes;
  CHECK(f.reads(last, 2));  // a stream
  CHECK(f.statistics().read_bytes - before == run_bytes - there * os::page_bytes);
  f.check();
}

namespace {

// Touches of words at random in a table of so many runs, that is on the tier.
terrace_statistics read_at_random(std::size_t runs, std::size_t touches) {
  RawDramPager f;
  if (!f.ready()) return {};
  std::byte* const table = f.allocate_filled(runs * run_bytes, 1);
  f.page_out(table, runs * run_bytes);
  const terrace_statistics before = f.statistics();
  test::Random random(5);
  std::size_t wrong = 0;
  f.with([&] {
    for (std::size_t i = 0; i < touches; ++i) {
      const std::size_t word = random.below(runs * run_bytes / sizeof(std::uint64_t));
      wrong += words(table)[word] == word_of(1, word) ? 0 : 1;
    }
  });
  CHECK(wrong == 0);
  f.check();
  terrace_statistics found = f.statistics();
  found.faults -= before.faults;
  found.read_bytes -= before.read_bytes;
  return found;
}

}  // namespace

// Both tables are too large to come as a whole on a few touches.
TEST_CASE("Words that are read at random come in runs where all of these fit and in pages where not",
          "[any_codec]") {
  constexpr std::size_t fits = test::budget_runs / 2;
  const terrace_statistics few = read_at_random(fits, 30'000);
  CHECK(few.faults <= fits * 3 / 2 * WholeRuns::touches_of_a_run);  // one by one: some 8,000
  CHECK(few.read_bytes <= fits * run_bytes * 3 / 2);
  constexpr std::size_t touches = 8000;
  const terrace_statistics many = read_at_random(4 * test::budget_runs, touches);
  CHECK(many.read_bytes <= touches * os::page_bytes * 5 / 4);
}

TEST_CASE("A run of which a part is there leaves, comes back and is changed like any other") {
  DramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* const block = f.allocate_filled(run_bytes, 1);
  f.page_out(block);
  test::Random random(3);
  std::vector<std::uint64_t> expected(pages_per_run);
  for (std::size_t page = 0; page < pages_per_run; ++page) expected[page] = word_of(1, page * words_per_page);
  for (int i = 0; i < 300; ++i) {
    const std::size_t page = random.below(pages_per_run);
    f.with([&] {
      CHECK(words(block)[page * words_per_page] == expected[page]);
      if (i % 2 == 0) words(block)[page * words_per_page] = expected[page] = random.next();
    });
    if (i % 7 == 0) f.page_out(block);
    if (i % 50 == 0) f.check();
  }
  f.page_out(block);
  f.with([&] {
    for (std::size_t page = 0; page < pages_per_run; ++page)
      CHECK(words(block)[page * words_per_page] == expected[page]);
  });
  f.check();
}

TEST_CASE("What is discarded is zero wherever it lay, and its neighbours are not") {
  DramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* const block = f.allocate_filled(run_bytes, 1);
  const int where = GENERATE(0, 1, 2, 3);
  if (where == 1) f.advise(block, run_bytes, TERRACE_ADVISE_COLD);  // staged
  if (where >= 2) f.page_out(block);
  if (where == 3) CHECK(has_word(f, block, 60, 1));  // a part of it is there
  std::byte* const begin = block + 50 * os::page_bytes;
  std::byte* const end = block + 80 * os::page_bytes;
  REQUIRE(os::advise(begin, static_cast<std::size_t>(end - begin), MADV_DONTNEED) == 0);
  f.pager.forget(begin, end);
  f.check();
  f.settle();
  for (int round = 0; round < 2; ++round) {
    f.with([&] {
      CHECK(test::is_zero(begin, static_cast<std::size_t>(end - begin)));
      CHECK(words(block)[49 * words_per_page] == word_of(1, 49 * words_per_page));
      CHECK(words(block)[80 * words_per_page] == word_of(1, 80 * words_per_page));
    });
    f.page_out(block);
  }
  f.check();
}

TEST_CASE("A flipped bit in a page is found when the page alone is read, and a lost page is SIGBUS",
          "[any_codec]") {
  CHECK(test::in_child([&] {
          ::signal(SIGBUS, SIG_DFL);
          test::Dram dram;
          tiers::FailingAdaptor tier(dram.dram);
          test::PagerFixture f(MoverKind::automatic, tier, test::budget_runs, 1024 * test::mib,
                               Compression::off);
          if (!f.ready()) return 200 + SIGBUS;
          std::byte* const block = f.allocate_filled(run_bytes, 1);
          f.page_out(block);
          tier.flip_bit_in_nth_read(1, 77);
          if (!has_word(f, block, 200, 1)) return 2;  // the second answer is right
          if (f.statistics().checksum_failures != 1) return 5;
          tier.fail_from(tiers::FailingAdaptor::Operation::read, 1, EIO);
          return has_word(f, block, 300, 1) ? 3 : 4;
        }) == 200 + SIGBUS);
}

TEST_CASE("A child reads what its parent had in part, and neither sees what the other writes after",
          "[any_codec]") {
  RawDramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* const block = f.allocate_filled(run_bytes, 1);
  f.page_out(block);
  CHECK(has_word(f, block, 30, 1));
  f.with([&] { words(block)[30 * words_per_page] = 5; });
  f.pager.forking().prepare(1'000'000);
  f.pager.forking().seal();
  CHECK(test::in_child([&] {
          if (!f.pager.forking().after_in_child()) return 2;
          return words(block)[30 * words_per_page] == 5 ? 0 : 3;
        }) == 0);
  f.pager.forking().after_in_parent(true);
  // The child may read the extent still, so the run moves to another one, with all its pages.
  f.page_out(block);
  f.with([&] {
    CHECK(words(block)[30 * words_per_page] == 5);
    words(block)[30 * words_per_page] = word_of(1, 30 * words_per_page);
  });
  CHECK(f.reads(block, 1));
  f.check();
}

// A fault in a mapping that has no advice about huge pages makes an empty page table before it waits.
TEST_CASE("A run stays one huge page when one thread asks for it while it is brought back for another",
          "[any_codec]") {
  RawDramPager f(MoverKind::move);
  if (!f.ready()) return;
  std::byte* const block = f.allocate_filled(run_bytes, 1);
  if (test::huge_bytes(block) == 0) {
    WARN("SKIP: the kernel gives no huge pages here");
    return;
  }
  constexpr unsigned threads = 4;
  for (unsigned round = 0; round < 400; ++round) {
    f.page_out(block);
    f.with([&] {
      std::vector<std::thread> touching;
      for (unsigned i = 0; i < threads; ++i)
        touching.emplace_back([&, i] {
          for (const std::uint64_t until = os::now_ns() + (round * 7919ULL + i * 104729ULL) % 200'000;
               os::now_ns() < until;)
            continue;
          const volatile std::byte touched = block[i * run_bytes / threads];
          static_cast<void>(touched);
        });
      for (std::thread& t : touching) t.join();
    });
  }
  CHECK(test::huge_bytes(block) == run_bytes);
  f.check();
}

TEST_CASE("A run that came back page by page comes as a whole once most of it was used", "[any_codec]") {
  RawDramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  constexpr std::size_t runs = test::budget_runs / 2;  // a block that comes page by page
  std::byte* const block = f.allocate_filled(runs * run_bytes, 1);
  f.page_out(block, runs * run_bytes);
  std::byte* const run = block + 4 * run_bytes;
  const auto pages_there = [&] { return f.pager.runs().pages(f.run_of(run)).in_place.count(); };
  std::size_t touched = 0;
  for (std::size_t page = 7; pages_there() < pages_per_run / 2; page += 9, ++touched) {
    REQUIRE(page < 20 * pages_per_run);
    f.with([&] {
      const volatile std::byte read = run[page % pages_per_run * os::page_bytes];
      static_cast<void>(read);
    });
  }
  CHECK(touched > 8);
  f.page_out(block, runs * run_bytes);
  f.with([&] {
    const volatile std::byte read = run[100 * os::page_bytes];
    static_cast<void>(read);
  });
  CHECK(pages_there() == pages_per_run);
  CHECK(f.reads(block, 1, runs * run_bytes));
  f.check();
}

namespace {

// As in a product of matrices: the result is written all over in each round, the factors are read in strips.
// What a round wrote to the tier, once it is known what comes straight back; the median of eight, as other
// work on the machine disturbs a round now and then. 0: SKIP.
std::uint64_t write_result_beside_strips() {
  RawDramPager f;
  if (!f.ready()) return 0;
  constexpr std::size_t result_runs = test::budget_runs * 7 / 8;
  constexpr std::size_t factor_runs = 2 * test::budget_runs;
  constexpr std::size_t stride = 9 * words_per_page;
  constexpr std::uint64_t rounds = 16, measured = 8;
  std::byte* const factor = f.allocate_filled(factor_runs * run_bytes, 2);
  std::byte* const result = f.allocate_filled(result_runs * run_bytes, 1);
  std::vector<std::uint64_t> written;  // in each round
  for (std::uint64_t round = 1; round <= rounds; ++round) {
    const std::uint64_t before = f.statistics().written_bytes;
    f.with([&] {
      for (std::size_t at = round * words_per_page; at < factor_runs * run_bytes / sizeof(std::uint64_t);
           at += stride) {
        const volatile std::uint64_t read = words(factor)[at];
        static_cast<void>(read);
        words(result)[at % (result_runs * run_bytes / sizeof(std::uint64_t))] = round;
      }
    });
    written.push_back(f.statistics().written_bytes - before);
  }
  f.check();
  std::sort(written.end() - measured, written.end());
  return written[rounds - measured / 2 - 1];
}

}  // namespace

// One pager learns less on a busy machine than another: of three. By order of arrival: 7.3 to 12.7. Where
// what comes back in pages leaves like any other: 4.4 to 8.1.
TEST_CASE("What comes straight back whenever it leaves, and is written each time, stays", "[any_codec]") {
  std::array<std::uint64_t, 3> written{};
  for (std::uint64_t& each : written) each = write_result_beside_strips();
  std::sort(written.begin(), written.end());
  CHECK(written[1] <= 6 * test::mib);
}

namespace {

// As an optimizer's update does, or a layer's backward pass: parts of six runs are changed one after the
// other, each several times over before the next. What a round wrote once that is known, in runs: the median
// of five, as other work on the machine disturbs a round now and then. 0: SKIP.
constexpr std::size_t runs_of_part = 6, parts_in_turn = test::budget_runs * 3 / 2 / runs_of_part;
std::uint64_t change_parts_in_turn() {
  RawDramPager f;
  if (!f.ready()) return 0;
  constexpr std::size_t rounds = 12, measured = 5, passes = 12;
  std::byte* const block = f.allocate_filled(parts_in_turn * runs_of_part * run_bytes, 1);
  std::vector<std::uint64_t> written;  // in each round
  for (std::size_t round = 1; round <= rounds; ++round) {
    const std::uint64_t before = f.statistics().written_bytes;
    for (std::size_t part = 0; part < parts_in_turn; ++part)
      for (std::size_t pass = 0; pass < passes; ++pass)
        f.with([&] {
          for (std::size_t page = 0; page < runs_of_part * pages_per_run; ++page)
            words(block + part * runs_of_part * run_bytes)[page * words_per_page] += round;
        });
    written.push_back((f.statistics().written_bytes - before) / run_bytes);
  }
  f.settle();
  f.check();
  std::sort(written.end() - measured, written.end());
  return written[rounds - measured / 2 - 1];
}

}  // namespace

// Where one run of a stream stays beside what is hot, the part that is in use leaves under the program: twice
// as much.
TEST_CASE("What is changed several times over in turn has room while it is in use", "[any_codec]") {
  CHECK(change_parts_in_turn() <= parts_in_turn * runs_of_part * 5 / 4);
}

TEST_CASE("Strides are kept ahead of", "[any_codec]") {
  RawDramPager f(MoverKind::automatic);
  if (!f.ready()) return;
  std::byte* const block = f.allocate_filled(2 * run_bytes, 1);
  f.page_out(block, 2 * run_bytes);
  const std::uint64_t before = f.statistics().faults;
  for (std::size_t page = 5; page < 2 * pages_per_run; page += 9) {
    CHECK(has_word(f, block, page, 1));
    f.settle();
  }
  const std::uint64_t touched = std::uint64_t{2} * pages_per_run / 9;
  CHECK(f.statistics().faults - before < touched / 2);
  f.check();
}

namespace {

struct ColumnsRead {
  std::uint64_t bytes = 0;           // of four columns of a matrix that came in rows before
  std::uint64_t faults_in_rows = 0;  // when it comes in rows again
};
constexpr std::size_t runs_of_matrix = 4 * test::budget_runs;

// As a transform along the columns of a matrix does.
ColumnsRead read_columns() {
  RawDramPager f;
  if (!f.ready()) return {};
  INFO(f.mover.name());
  constexpr std::size_t pages_per_row = 16;
  std::byte* const matrix = f.allocate_filled(runs_of_matrix * run_bytes, 1);
  const auto read_pages = [&](std::size_t first, std::size_t step) {
    bool right = true;
    f.with([&] {
      for (std::size_t page = first; page < runs_of_matrix * pages_per_run; page += step)
        right &= words(matrix)[page * words_per_page] == word_of(1, page * words_per_page);
    });
    f.settle();
    return right;
  };
  CHECK(read_pages(0, 1));
  for (int round = 0; round < 3; ++round)
    CHECK(read_pages(0, pages_per_row));  // each run is touched at its beginning
  ColumnsRead read;
  const std::uint64_t bytes = f.statistics().read_bytes;
  for (std::size_t column = 0; column < 4; ++column) CHECK(read_pages(column, pages_per_row));
  read.bytes = f.statistics().read_bytes - bytes;
  CHECK(read_pages(0, 1));
  const std::uint64_t faults = f.statistics().faults;
  CHECK(read_pages(0, 1));
  read.faults_in_rows = f.statistics().faults - faults;
  f.check();
  return read;
}

}  // namespace

// In runs a column is 16 times as much. One pager learns later on a busy machine than another: of three.
TEST_CASE("What is read in columns comes in pages, and once it is streamed again in runs", "[any_codec]") {
  constexpr std::uint64_t column_bytes = runs_of_matrix * run_bytes / 16;
  std::array<ColumnsRead, 3> read{};
  for (ColumnsRead& each : read) each = read_columns();
  std::sort(read.begin(), read.end(),
            [](const ColumnsRead& a, const ColumnsRead& b) { return a.bytes < b.bytes; });
  CHECK(read[1].bytes <= 4 * column_bytes * 3 / 2);
  for (const ColumnsRead& each : read) CHECK(each.faults_in_rows <= 2 * runs_of_matrix);
}

TEST_CASE("What was used all over and is read in columns now comes in pages again", "[any_codec]") {
  test::RawDramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  constexpr std::size_t runs = 4 * test::budget_runs;
  constexpr std::size_t pages_per_row = 16;
  std::byte* const matrix = f.allocate_filled(runs * run_bytes, 1);
  const auto read_page = [&](std::size_t page) {
    return words(matrix)[page * words_per_page] == word_of(1, page * words_per_page);
  };
  std::size_t wrong = 0;
  f.with([&] {  // from the end of each run to its beginning, which is no stream
    for (std::size_t run = 0; run < runs; ++run)
      for (std::size_t page = pages_per_run; page-- > 0;)
        wrong += read_page(run * pages_per_run + page) ? 0 : 1;
  });
  f.settle();
  std::size_t dense = 0;
  for (std::size_t run = 0; run < runs; ++run)
    dense += f.pager.runs()[f.run_of(matrix + run * run_bytes)].dense;
  REQUIRE(dense > runs * 3 / 4);
  std::vector<std::uint64_t> read;  // for each column, all of them twice
  for (std::size_t number = 0; number < 2 * pages_per_row; ++number) {
    const std::size_t column = number % pages_per_row;
    const std::uint64_t before = f.statistics().read_bytes;
    f.with([&] {
      for (std::size_t page = column; page < runs * pages_per_run; page += pages_per_row)
        wrong += read_page(page) ? 0 : 1;
    });
    f.settle();
    read.push_back(f.statistics().read_bytes - before);
  }
  // Two trials decide, of one run in 128; now and then a few columns in a row come in runs again.
  constexpr std::size_t learning = 4;
  std::sort(read.begin() + learning, read.end());
  constexpr std::size_t column_bytes = runs * run_bytes / pages_per_row;  // in runs it is 16 times as much
  CHECK(read[(learning + read.size()) / 2] <= column_bytes * 3 / 2);
  CHECK(wrong == 0);
  f.check();
}

// What is compressed comes as a whole, so that nothing could show how little of it is used.
TEST_CASE("What was compressed and is read in columns now comes in pages", "[any_codec]") {
  test::ZvcDramPager f;
  if (!f.ready()) return;
  constexpr std::size_t runs = 4 * test::budget_runs;
  constexpr std::size_t pages_per_row = 16;
  std::byte* const matrix = f.allocate(runs * run_bytes);
  f.with([&] {  // three words of four are zero
    for (std::size_t word = 0; word < runs * run_bytes / sizeof(std::uint64_t); word += 4)
      words(matrix)[word] = word_of(1, word);
  });
  f.settle();
  const auto compressed_runs = [&] {
    std::size_t count = 0;
    for (std::size_t run = 0; run < runs; ++run) {
      const Run& r = f.pager.runs()[f.run_of(matrix + run * run_bytes)];
      count += r.has_slot && r.slot_bytes != run_bytes ? 1 : 0;
    }
    return count;
  };
  REQUIRE(compressed_runs() > runs / 2);
  std::size_t wrong = 0;
  std::vector<std::uint64_t> read;  // for each column
  for (std::size_t column = 0; column < 4 * pages_per_row; ++column) {
    const std::uint64_t before = f.statistics().read_bytes;
    f.with([&] {
      for (std::size_t page = column % pages_per_row; page < runs * pages_per_run; page += pages_per_row)
        wrong += words(matrix)[page * words_per_page] == word_of(1, page * words_per_page) ? 0 : 1;
    });
    f.settle();
    read.push_back(f.statistics().read_bytes - before);
  }
  CHECK(compressed_runs() < runs / 4);
  std::sort(read.begin() + pages_per_row, read.end());  // it was known by then
  constexpr std::size_t column_bytes = runs * run_bytes / pages_per_row;
  CHECK(read[pages_per_row * 5 / 2] <= column_bytes * 3 / 2);
  CHECK(wrong == 0);
  f.check();
}

}  // namespace terrace::liballoc
