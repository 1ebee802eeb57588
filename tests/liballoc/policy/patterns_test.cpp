// What the touches of a program tell: strides, streams, cycles, successors. Pure parts, tested as such.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "liballoc/paging/policy/hot_looks.h"
#include "liballoc/paging/policy/insertion.h"
#include "liballoc/paging/policy/reach.h"
#include "liballoc/paging/policy/strides.h"
#include "liballoc/paging/policy/trial.h"
#include "liballoc/paging/policy/whole_runs.h"
#include "liballoc/paging/runs/block_table.h"
#include "tests/liballoc/paging/next_expected.h"

namespace terrace::liballoc {
namespace {

constexpr std::uint64_t row_bytes = 36'000;  // of a matrix that is no multiple of a page

TEST_CASE("A stride is known after three rows, and doubles its reach", "[any_codec]") {
  Strides strides;
  CHECK(strides.touched(5 * row_bytes + 16).count == 0);
  CHECK(strides.touched(6 * row_bytes + 16).count == 0);
  Strides::Ahead ahead = strides.touched(7 * row_bytes + 16);
  CHECK(ahead.count == 1 + 4);  // the touched row first
  CHECK(ahead.stride == static_cast<std::int64_t>(row_bytes));
  CHECK(ahead.first == 7 * row_bytes + 16);
  ahead = strides.touched(12 * row_bytes + 16);
  CHECK(ahead.count == 1 + 8);
  CHECK(ahead.first == 12 * row_bytes + 16);
}

TEST_CASE("Rows whose pages are there leave gaps in a stride", "[any_codec]") {
  Strides strides;
  strides.touched(0);
  strides.touched(2 * row_bytes);
  Strides::Ahead ahead = strides.touched(5 * row_bytes);
  CHECK(ahead.count == 1 + 4);
  CHECK(ahead.stride == static_cast<std::int64_t>(row_bytes));
  ahead = strides.touched(17 * row_bytes);
  CHECK(ahead.first == 10 * row_bytes);  // what was passed over may be next
  CHECK(ahead.count == 7 + 1 + 8);
}

// Rows of 9,000 doubles: with every eighth column every 64th row goes on to the next page, other rows each
// time.
TEST_CASE("Down the columns of a matrix most pages come ahead, also those of rows far apart", "[any_codec]") {
  constexpr std::uint64_t width = 9000, row = width * sizeof(double);
  std::vector<bool> is_there(width * row / 4096 + 16 * 64 * row);
  Strides strides;
  std::uint64_t faults = 0, pages = 0;
  for (std::uint64_t column = 0; column < 512; column += 8) {
    for (std::uint64_t n = 0; n < width; ++n) {
      const std::uint64_t address = n * row + column * sizeof(double);
      if (is_there[address / 4096]) continue;
      is_there[address / 4096] = true;
      const bool is_first_column = column == 0;  // which brings all rows
      faults += is_first_column ? 0 : 1;
      const Strides::Ahead ahead = strides.touched(address);
      for (std::uint64_t i = 0; i < ahead.count; ++i) {
        const std::uint64_t page = (ahead.first + i * static_cast<std::uint64_t>(ahead.stride)) / 4096;
        pages += is_first_column || is_there[page] ? 0 : 1;
        is_there[page] = true;
      }
    }
  }
  CHECK(pages > 63 * 9 * (width / 64) / 10);
  CHECK(faults < pages / 10);
}

TEST_CASE("Rows that come four at a time, out of order, are one stride", "[any_codec]") {
  constexpr std::uint64_t order[] = {1, 3, 0, 2};  // as a library packs the strip of a matrix
  constexpr std::uint64_t rows = 400, begin = 4 * 4096 + 64;
  Strides strides;
  std::vector<bool> is_there(rows + 64);
  std::uint64_t faults = 0;
  for (std::uint64_t i = 0; i < rows; ++i) {
    const std::uint64_t row = i / 4 * 4 + order[i % 4];
    if (is_there[row]) continue;
    ++faults;
    is_there[row] = true;
    const Strides::Ahead ahead = strides.touched(begin + row * row_bytes);
    for (std::uint32_t n = 0; n < ahead.count; ++n) is_there[(ahead.first - begin) / row_bytes + n] = true;
  }
  CHECK(faults <= rows / 8);
}

TEST_CASE("A row that goes on in the next page is as long as its last touch says", "[any_codec]") {
  Strides strides;
  for (std::uint64_t row = 0; row < 3; ++row) {
    CHECK(strides.touched(row * row_bytes).count == (row < 2 ? 0 : 1 + 4));
    CHECK(strides.touched((row * row_bytes / 4096 + 1) * 4096).count == 0);  // the page behind
  }
  const Strides::Ahead ahead = strides.touched(7 * row_bytes);
  CHECK(ahead.count == 1 + 8);
  CHECK(ahead.length == 4096 + 1);  // row 0 begins with its page
}

TEST_CASE("A touch of what a stride has asked for already is expected, and one elsewhere is not",
          "[any_codec]") {
  Strides strides;
  for (std::uint64_t row = 5; row < 7; ++row) CHECK_FALSE(strides.touched(row * row_bytes + 16).is_expected);
  REQUIRE(strides.touched(7 * row_bytes + 16).count > 0);
  CHECK(strides.touched(9 * row_bytes + 16).is_expected);  // faster than it came
  CHECK(strides.touched(9 * row_bytes + 16).count == 0);
  const std::uint64_t next_page = (10 * row_bytes + 16) / 4096 * 4096 + 4096;
  CHECK(strides.touched(next_page).is_expected);
  CHECK_FALSE(strides.touched(10 * row_bytes + 5000).is_expected);
}

TEST_CASE("Neighbouring pages and unrelated ones are no stride", "[any_codec]") {
  Strides strides;
  for (std::uint64_t page = 0; page < 64; ++page) CHECK(strides.touched(page * 4096).count == 0);
  std::uint64_t at = 1;
  for (int i = 0; i < 200; ++i) {
    at = at * 6364136223846793005ULL + 1442695040888963407ULL;
    CHECK(strides.touched(at >> 34 & ~63ULL).count == 0);
  }
}

TEST_CASE("A stream comes as a whole, a lone touch as a page, and what goes on grows", "[any_codec]") {
  Reach reach;
  TouchTrace trace;
  CHECK(reach.of(trace, 0, true, 0, false).count() == pages_per_run);
  CHECK(reach.of(trace, 100, false, 0, false).count() == 1);
  CHECK(reach.of(trace, 101, false, 1, false).count() == 4);
  CHECK(reach.of(trace, 105, false, 5, false).count() == 16);
  CHECK(reach.of(trace, 121, false, 21, false).count() == pages_per_run);
}

TEST_CASE(
    "Single pages cost what a run would have after so many of them, while the run would still be there") {
  constexpr std::uint32_t room = 10;
  const auto pays_after = [](std::uint32_t runs) {
    WholeRuns whole;
    std::vector<LoneTouches> touched(runs);
    for (std::uint32_t round = 1; round <= 100; ++round)
      for (LoneTouches& run : touched) {
        whole.touched(run, room);
        WholeRuns::touched_alone(run);
        if (WholeRuns::pays(run)) return round;
      }
    return 0U;
  };
  CHECK(pays_after(1) == WholeRuns::touches_of_a_run);
  CHECK(pays_after(room) == WholeRuns::touches_of_a_run);
  CHECK(pays_after(room + 1) == 0);  // each would have left before its next touch
}

TEST_CASE("A run that has come as a whole has to earn that anew", "[any_codec]") {
  WholeRuns whole;
  LoneTouches run;
  const auto touches_until_it_pays = [&] {
    std::uint32_t touches = 0;
    for (; !WholeRuns::pays(run); ++touches) {
      whole.touched(run, 10);
      WholeRuns::touched_alone(run);
    }
    return touches;
  };
  CHECK(touches_until_it_pays() == WholeRuns::touches_of_a_run);
  WholeRuns::comes_whole(run);
  CHECK(touches_until_it_pays() == WholeRuns::touches_of_a_run);
}

TEST_CASE("What comes ahead of its touch costs no wait and does not speak for the run", "[any_codec]") {
  WholeRuns whole;
  LoneTouches run;
  for (int i = 0; i < 1000; ++i) whole.touched(run, 10);
  CHECK_FALSE(WholeRuns::pays(run));
}

TEST_CASE("A run of which every ninth page is used does not come as a whole", "[any_codec]") {
  Reach reach;
  TouchTrace trace;
  for (std::uint32_t page = 1; page < pages_per_run; page += 9)
    CHECK(reach.of(trace, page, false, page / 9, false).count() == 1);
}

TEST_CASE("A run of a small block is about to come as a whole when a few places of it were touched",
          "[any_codec]") {
  Reach reach;
  TouchTrace run, other;
  for (std::uint32_t touch = 0; touch < 3; ++touch) {
    CHECK_FALSE(reach.comes_whole_if_cheap(run));
    static_cast<void>(reach.of(run, touch * 100, false, touch, false));
  }
  CHECK(reach.comes_whole_if_cheap(run));
  for (std::uint32_t touch = 0; touch < 64; ++touch)
    static_cast<void>(reach.of(other, touch * 7 % pages_per_run, false, touch, false));
  CHECK_FALSE(reach.comes_whole_if_cheap(run));  // that was long ago
}

TEST_CASE("A run of a small block that is touched in a few places at a time comes as a whole",
          "[any_codec]") {
  constexpr std::uint32_t plane = 64;  // pages
  Reach reach;
  TouchTrace trace;
  std::uint32_t touches = 1;
  for (std::uint32_t page = plane; reach.of(trace, page, false, touches, true).count() == 1; page += plane)
    ++touches;
  CHECK(touches == 4);
  TouchTrace rare;
  for (std::uint32_t page = 1; page < pages_per_run; page += 9) {
    CHECK(reach.of(rare, page, false, page / 9, true).count() == 1);
    for (std::uint32_t elsewhere = 0; elsewhere < 64; ++elsewhere) {
      TouchTrace other;
      reach.of(other, 7, false, 0, true);
    }
  }
}

std::uint8_t returned_once() { return 1; }

// How many leave from one look to the next, the look included.
std::uint32_t leaves_to_look(HotLooks& looks, std::uint32_t run, std::uint32_t arrivals) {
  std::uint32_t leaves = 1;
  for (; !looks.is_due(); ++leaves) looks.note_leave();
  looks.begin(run, arrivals);
  looks.note_leave();
  return leaves;
}

TEST_CASE("What is hot is looked at less often while it comes straight back, and often once it does not",
          "[any_codec]") {
  constexpr std::uint32_t budget = 100;
  HotLooks looks;
  std::uint32_t arrivals = 0;
  CHECK(leaves_to_look(looks, 7, arrivals) == HotLooks::usual_pause + 1);
  CHECK(looks.run() == 7);
  for (std::uint32_t pause = HotLooks::usual_pause; pause < 2 * HotLooks::most_pause; pause *= 2) {
    looks.settle(false, arrivals += budget, budget);  // it may still come
    CHECK(looks.run() == 7);
    looks.settle(true, arrivals, budget);
    CHECK(leaves_to_look(looks, 7, arrivals) == std::min(2 * pause, HotLooks::most_pause));
  }
  CHECK(leaves_to_look(looks, 9, arrivals) == HotLooks::most_pause);
  CHECK(looks.run() == 7);
  for (std::uint32_t pause = HotLooks::usual_pause; pause > HotLooks::least_pause / 2; pause /= 2) {
    looks.settle(false, arrivals += budget + 1, budget);
    CHECK(looks.run() == none);
    CHECK(leaves_to_look(looks, 7, arrivals) == std::max(pause, HotLooks::least_pause));
  }
  looks.settle(true, arrivals, budget);
  CHECK(leaves_to_look(looks, 7, arrivals) == 2 * HotLooks::least_pause);
}

TEST_CASE("What leaves in place of what is hot and comes straight back brings the next look nearer",
          "[any_codec]") {
  HotLooks looks;
  for (std::uint32_t returns = 0; returns < HotLooks::usual_pause / HotLooks::leaves_of_a_return; ++returns) {
    CHECK_FALSE(looks.is_due());
    looks.note_usual_back();
  }
  CHECK(looks.is_due());
}

TEST_CASE("On a cycle what stays is spread over it", "[any_codec]") {
  constexpr std::uint32_t cycle = 90;
  constexpr std::uint32_t room = 30;
  Insertion insertion;
  std::uint8_t returns = 0;
  CHECK_FALSE(insertion.streams(cycle, room, returns));
  unsigned kept = 0, streamed_in_a_row = 0;
  for (unsigned i = 0; i < cycle; ++i) {
    returns = returned_once();
    const bool streams = insertion.streams(cycle, room, returns);
    CHECK(returns == Insertion::on_a_cycle);
    kept += streams ? 0 : 1;
    streamed_in_a_row = streams ? streamed_in_a_row + 1 : 0;
    CHECK(streamed_in_a_row <= 2);
  }
  CHECK(kept == room);
  CHECK_FALSE(insertion.streams(room, room, returns));
}

TEST_CASE("Where hardly any run is new, what returns is on a cycle at once", "[any_codec]") {
  constexpr std::uint32_t returned = 64;
  const unsigned others = GENERATE(0U, 1U, 2U);  // for each four that return
  Insertion insertion;
  for (std::uint32_t i = 1; i <= 2 * returned; ++i) insertion.note_return(i + i / 4 * others);
  std::uint8_t returns = 0;
  CHECK(insertion.streams(90, 30, returns) == (others < 2));
  CHECK(returns == (others < 2 ? Insertion::on_a_cycle : returned_once()));
}

TEST_CASE("What is next in each stream comes before what is far ahead in one", "[any_codec]") {
  ReadAhead ahead;
  REQUIRE(ahead.initialise(1000) == 0);
  const auto is_away = [](std::uint32_t run) { return run % 2 == 0; };
  ahead.used(1, 100, 0, is_away);
  ahead.used(1, 700, 0, is_away);
  for (const std::uint32_t n : {102, 104, 106, 108, 702, 704, 706, 708, 110, 112})
    CHECK(test::next_expected(ahead) == n);
}

TEST_CASE("What came and left since it was asked for is not expected any more", "[any_codec]") {
  ReadAhead ahead;
  REQUIRE(ahead.initialise(1000) == 0);
  const auto all_away = [](std::uint32_t) { return true; };
  ahead.used(1, 100, 40, all_away);
  ahead.used(2, 500, 45, all_away);
  // The first stream's runs came and left once more while 42 others did.
  const auto has_not_left = [](std::uint32_t run, std::uint32_t asked) { return run >= 500 || asked > 42; };
  CHECK(ahead.pop(has_not_left) == 501);
  ahead.used(1, 100, 46, all_away);
  for (const std::uint32_t n : {502, 503, 504, 101}) CHECK(ahead.pop(has_not_left) == n);
}

TEST_CASE("What lies between a run and its successor is expected, too", "[any_codec]") {
  const auto all_away = [](std::uint32_t) { return true; };
  ReadAhead ahead;
  REQUIRE(ahead.initialise(1000) == 0);
  ahead.used(1, 10, 0, all_away);
  ahead.used(1, 14, 0, all_away);
  ahead.used(1, 500, 0, all_away);
  ahead.clear();
  ahead.used(1, 10, 0, all_away);
  CHECK(test::next_expected(ahead) == 11);
  for (std::uint32_t n = 12; n <= 14; ++n) CHECK(test::next_expected(ahead) == n);
  CHECK(test::next_expected(ahead) == 500);  // far from what it followed: nothing lies between
}

TEST_CASE("A block is known as scattered by many lone touches, and not after streams", "[any_codec]") {
  KnownBlock block;
  for (unsigned i = 0; i < KnownBlock::sure; ++i) {
    CHECK_FALSE(block.is_scattered());
    block.touched(false);
  }
  CHECK(block.is_scattered());
  block.touched(true);
  CHECK_FALSE(block.is_scattered());
}

TEST_CASE(
    "Of what comes as a whole one run in so many is tried, and what is there of it later is the finding") {
  Trial trial;
  CHECK_FALSE(trial.begin(7, 1, 15, false, false));  // too few have come
  CHECK_FALSE(trial.begin(7, 0, 16, false, false));  // of no block: others may use the rest of it
  REQUIRE(trial.begin(7, 1, 16, false, false));
  CHECK(trial.is_of(7));
  CHECK_FALSE(trial.begin(9, 1, 100, false, false));  // one at a time
  CHECK_FALSE(trial.is_due(31));
  REQUIRE(trial.is_due(32));
  CHECK(trial.finding(pages_per_run / 3 - 1, 15, 32) == Trial::Finding::sparse);
  CHECK(trial.finding(pages_per_run / 3, 15, 32) == Trial::Finding::unclear);
  CHECK(trial.finding(pages_per_run * 3 / 4, 15, 32) == Trial::Finding::full);
  CHECK(trial.finding(0, 30, 32) == Trial::Finding::unclear);  // it left since
  trial.end(32);
  CHECK_FALSE(trial.is_of(7));
  CHECK_FALSE(trial.is_due(1000));
  CHECK_FALSE(trial.begin(8, 1, 47, false, false));
  CHECK_FALSE(
      trial.begin(8, 1, 32 + 127, true, false));  // what was used all over before is tried more rarely
  CHECK(trial.begin(8, 1, 48, false, false));
  trial.end(48);
  CHECK(trial.begin(8, 1, 48 + 128, true, false));
}

TEST_CASE("A run on trial of which pages were in use shows that few are, and not that all came together",
          "[any_codec]") {
  Trial trial;
  REQUIRE(trial.begin(7, 1, 16, false, true));
  CHECK(trial.was_scattered());
  CHECK(trial.finding(pages_per_run / 3 - 1, 15, 32) == Trial::Finding::sparse);
  CHECK(trial.finding(pages_per_run, 15, 32) == Trial::Finding::unclear);
  trial.end(32);
  REQUIRE(trial.begin(8, 1, 48, false, false));
  CHECK_FALSE(trial.was_scattered());
}

TEST_CASE("A trial goes on for as long as its run is touched", "[any_codec]") {
  Trial trial;
  REQUIRE(trial.begin(7, 1, 16, false, false));
  for (std::uint32_t now = 16; now < 200; now += 15) {
    CHECK_FALSE(trial.is_due(now));
    trial.note_touch(now);
  }
  CHECK_FALSE(trial.is_due(196 + 15));
  REQUIRE(trial.is_due(196 + 16));
  CHECK_FALSE(trial.is_void(15, 212));
  CHECK(trial.is_void(17, 212));  // it left since
  CHECK(trial.finding(pages_per_run, 15, 212) == Trial::Finding::full);
}

TEST_CASE(
    "A block is sparse after two trials that say so, and is not after one that says otherwise, or two "
    "streams") {
  UseOfRuns block;
  block.tried(true);
  CHECK_FALSE(block.is_sparse());
  block.tried(true);
  CHECK(block.is_sparse());
  block.tried(false);
  CHECK_FALSE(block.is_sparse());
  for (int i = 0; i < 100; ++i) block.tried(true);
  for (int i = 0; i < 3; ++i) block.streamed_by_touches();
  CHECK_FALSE(block.is_sparse());
}

}  // namespace
}  // namespace terrace::liballoc
