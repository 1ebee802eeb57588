// What the pager learns from how things went: how deep to read, how far ahead, how long a stream needs its
// runs, and whether the job does nothing but wait. Pure parts, tested as such.
#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>

#include "liballoc/agent/waiting/busy_wait.h"
#include "liballoc/paging/policy/lookahead.h"
#include "liballoc/paging/policy/recent_share.h"
#include "liballoc/paging/policy/stream_window.h"
#include "liballoc/paging/policy/tight_window.h"
#include "liballoc/paging/thrashing.h"
#include "liballoc/paging/transfers/read_depth.h"
#include "tests/liballoc/paging/next_expected.h"

namespace terrace::liballoc {
namespace {

constexpr auto bytes_of_a_run = static_cast<std::uint32_t>(pages_per_run * os::page_bytes);

// A drive on which a run takes `ns_at` that many in flight.
std::uint32_t depth_after(ReadDepth& depth, unsigned reads,
                          const std::function<std::uint64_t(std::uint32_t)>& ns_at) {
  for (unsigned i = 0; i < reads; ++i) depth.note(ns_at(depth.reads()), bytes_of_a_run, depth.reads());
  return depth.reads();
}

}  // namespace

TEST_CASE("A drive that gets faster with depth is given more, one that gets slower the least",
          "[any_codec]") {
  ReadDepth deep;
  const auto faster = [](std::uint32_t n) { return 600'000U / (n < 5 ? n : 5); };
  CHECK(depth_after(deep, 4000, faster) >= 5);
  ReadDepth shallow;
  const auto slower = [](std::uint32_t n) { return 500'000U * n; };
  CHECK(depth_after(shallow, 4000, slower) <= ReadDepth::least + 1);
  // It becomes another drive.
  CHECK(depth_after(shallow, 4000, faster) >= 5);
  CHECK(depth_after(shallow, 4000, slower) <= ReadDepth::least + 1);
}

TEST_CASE("Where depth does not matter, few reads are enough", "[any_codec]") {
  ReadDepth depth;
  CHECK(depth_after(depth, 4000, [](std::uint32_t) { return 700'000U; }) <= ReadDepth::least + 1);
}

TEST_CASE("Small reads and such that had the drive for themselves say nothing about depth", "[any_codec]") {
  ReadDepth depth;
  const std::uint32_t deep = depth_after(depth, 4000, [](std::uint32_t n) { return 600'000U / n; });
  REQUIRE(deep > ReadDepth::least + 2);  // from here, reads that all take as long would lead back
  for (unsigned i = 0; i < 4000; ++i) depth.note(700'000, 4096, ReadDepth::most);
  for (unsigned i = 0; i < 4000; ++i) depth.note(700'000, bytes_of_a_run, 1);
  CHECK(depth.reads() == deep);
}

TEST_CASE("The agent stays awake for a piece as long as pieces take, and sleeps where they take too long",
          "[any_codec]") {
  constexpr std::uint64_t us = 1000;
  std::uint64_t now = 1'000'000'000;
  BusyWait wait;
  const auto serve = [&](unsigned pieces, std::uint64_t ns) {
    for (unsigned i = 0; i < pieces; ++i) {
      wait.note_fault(now);
      now += ns;
      wait.note_served(now);
      now += 10 * us;
    }
  };
  CHECK_FALSE(wait.goes_on(now, true));  // nothing was touched
  serve(50, 100 * us);
  CHECK(wait.goes_on(now, false));  // for the next touch
  CHECK_FALSE(wait.goes_on(now + 60 * us, false));
  wait.note_fault(now);
  CHECK(wait.goes_on(now + 150 * us, true));
  CHECK_FALSE(wait.goes_on(now + 150 * us, false));  // it comes as a whole, which takes long
  CHECK_FALSE(wait.goes_on(now + 210 * us, true));
  serve(50, 5000 * us);
  wait.note_fault(now);
  CHECK_FALSE(wait.goes_on(now + 60 * us, true));
  serve(50, 80 * us);  // it becomes another drive
  wait.note_fault(now);
  CHECK(wait.goes_on(now + 140 * us, true));
}

TEST_CASE("Reading ahead goes further while it comes late, and back when it is in vain or early",
          "[any_codec]") {
  Lookahead ahead;
  for (unsigned i = 0; i < 10 * Lookahead::sample; ++i) ahead.note_use(i % 8 == 0, 0);
  const std::uint32_t far = ahead.runs();
  CHECK(far > Lookahead::least);
  for (unsigned i = 0; i < 3 * Lookahead::sample; ++i) ahead.note_use(false, 0);
  CHECK(ahead.runs() == far - 3);
  std::uint64_t wasted = 0;
  for (unsigned i = 0; i < 100 * Lookahead::sample; ++i) ahead.note_use(true, ++wasted);
  CHECK(ahead.runs() == Lookahead::least);
  for (unsigned i = 0; i < 100 * Lookahead::sample; ++i) ahead.note_use(true, wasted);
  CHECK(ahead.runs() == Lookahead::most);
}

TEST_CASE("A stream's window shrinks until what left comes straight back", "[any_codec]") {
  constexpr std::uint32_t budget = 400;
  StreamWindow window;
  CHECK(window.runs(budget) == budget / 8);
  window.note_return(1000, budget);
  CHECK(window.runs(budget) == budget / 8);
  for (unsigned i = 0; i < 100 * 32; ++i) window.note_leave();
  CHECK(window.runs(budget) == StreamWindow::least);
  window.note_return(StreamWindow::least + 1, budget);
  CHECK(window.runs(budget) == StreamWindow::least);
  window.note_return(3, budget);
  CHECK(window.runs(budget) > StreamWindow::least);
  for (unsigned i = 0; i < 100; ++i) window.note_return(0, budget);
  CHECK(window.runs(budget) == budget / 8);
  CHECK(window.runs(16) == StreamWindow::least);
}

TEST_CASE("Beside what is hot a stream gets what comes straight back asks for", "[any_codec]") {
  constexpr std::uint32_t budget = 400;
  TightWindow window;
  CHECK(window.runs(budget) == 1);
  for (unsigned i = 0; i < 6; ++i) window.note_return(Turn::first, 8, budget);
  CHECK(window.runs(budget) == 7);
  window.note_return(Turn::first, budget / 8 + 1, budget);  // no window would have kept it
  window.note_return(Turn::last, budget / 8 + 1, budget);   // nor did this one take its room
  window.note_return(Turn::usual, 1, budget);
  CHECK(window.runs(budget) == 7);
  window.note_return(Turn::last, 2, budget);
  CHECK(window.runs(budget) == 6);
  for (unsigned i = 0; i < 100; ++i) window.note_return(Turn::last, 0, budget);
  CHECK(window.runs(budget) == 1);
  for (unsigned i = 0; i < 100; ++i) window.note_return(Turn::first, 0, budget);
  CHECK(window.runs(budget) == budget / 8);
}

TEST_CASE("A share is of what was seen last", "[any_codec]") {
  RecentShare share;
  CHECK_FALSE(share.exceeds(1));
  for (unsigned i = 0; i < 400; ++i) share.note(true);
  CHECK(share.exceeds(15));
  for (unsigned i = 0; i < 400; ++i) share.note(i % 2 == 0);
  CHECK(share.exceeds(6));
  CHECK_FALSE(share.exceeds(10));
  for (unsigned i = 0; i < 400; ++i) share.note(false);
  CHECK_FALSE(share.exceeds(1));
}

TEST_CASE("The threads that share a tensor have a sequence each", "[any_codec]") {
  constexpr std::uint32_t runs_of_a_tensor = 16;
  const auto all_away = [](std::uint32_t) { return true; };
  const auto none_away = [](std::uint32_t) { return false; };
  ReadAhead ahead;
  REQUIRE(ahead.initialise(1000) == 0);
  // Two halves, one after the other in whatever order, and then the next tensor.
  for (std::uint32_t tensor = 0; tensor < 4; ++tensor)
    for (const std::uint32_t half : {1U, 0U})
      for (std::uint32_t i = 0; i < runs_of_a_tensor / 2; ++i)
        ahead.used(100 + half, tensor * runs_of_a_tensor + half * runs_of_a_tensor / 2 + i, 0, none_away);
  ahead.clear();
  ahead.used(101, runs_of_a_tensor / 2, 0, all_away);
  bool is_next_tensor_expected = false;
  for (std::uint32_t n = test::next_expected(ahead); n != none; n = test::next_expected(ahead))
    is_next_tensor_expected |= n >= runs_of_a_tensor && n < 2 * runs_of_a_tensor;
  CHECK(is_next_tensor_expected);
}

TEST_CASE("A job that waits for what it just lost is said to thrash, once, and when it is sure",
          "[any_codec]") {
  Thrashing thrashing;
  Thrashing::Counts counts;
  std::uint64_t now = 0;
  const auto seconds = [&](unsigned looks, unsigned stall_percent, unsigned back_percent) {
    unsigned told = 0;
    for (unsigned i = 0; i < looks; ++i) {
      now += Thrashing::look_ns;
      counts.stall_ns += Thrashing::look_ns / 100 * stall_percent;
      counts.evicted_bytes += 1000;
      counts.refaulted_bytes += 10 * back_percent;
      REQUIRE(thrashing.is_due(now));
      told += thrashing.look(now, counts) ? 1 : 0;
      CHECK_FALSE(thrashing.is_due(now + 1));
    }
    return told;
  };
  CHECK(seconds(20, 80, 20) == 0);  // waits, but for what was away for long: it streams
  CHECK(seconds(20, 20, 80) == 0);  // comes straight back, but nobody waits for it
  CHECK(seconds(Thrashing::looks_to_be_sure - 1, 80, 80) == 0);
  CHECK(seconds(1, 10, 80) == 0);
  CHECK(seconds(Thrashing::looks_to_be_sure, 80, 80) == 1);
  CHECK(seconds(20, 80, 80) == 0);
}

}  // namespace terrace::liballoc
