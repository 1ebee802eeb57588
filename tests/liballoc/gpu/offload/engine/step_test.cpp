// Steps: what is never fetched is forgotten, the order is learned, and nothing grows.
#include <algorithm>
#include <cerrno>

#include "tests/liballoc/gpu/offload/engine_fixture.h"

using namespace terrace::liballoc::offload::test;

namespace {

std::vector<std::uint64_t> expected_after(const Opened& engine, std::uint64_t id, std::size_t count = 16) {
  std::vector<std::uint64_t> out(count);
  out.resize(terrace_offload_expect(engine.get(), id, out.data(), count));
  return out;
}

std::vector<std::uint64_t> store_some(const Opened& engine, const std::vector<std::byte>& source, int count) {
  std::vector<std::uint64_t> ids;
  ids.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) ids.push_back(engine.store(source));
  return ids;
}

}  // namespace

TEST_CASE("TheStepsEndForgetsWhatWasNeverReleased") {
  const Opened engine({.device = GENERATE("cpu", "emulated:1G,d2h=200M")});
  const auto source = content(mib, 1);
  const auto ids = store_some(engine, source, 5);
  engine.release(ids[2]);
  REQUIRE(terrace_offload_end_step(engine.get()) == 0);
  CHECK(engine.statistics().dropped == 4);
  CHECK(engine.statistics().live == 0);
  CHECK(engine.statistics().live_bytes == 0);
  std::vector<std::byte> back(mib);
  CHECK(engine.fetch(ids[0], back) == -ENOENT);
}

TEST_CASE("FetchesAreExpectedInReverseUntilAnOrderIsLearned") {
  const Opened engine;
  const auto source = content(5000, 1);
  std::vector<std::byte> back(source.size());
  auto ids = store_some(engine, source, 4);
  CHECK(expected_after(engine, 0) == std::vector{ids[3], ids[2], ids[1], ids[0]});
  CHECK(expected_after(engine, ids[2]) == std::vector{ids[1], ids[0]});
  for (const int i : {1, 3, 0}) CHECK(engine.fetch(ids[static_cast<std::size_t>(i)], back) == 0);
  CHECK(expected_after(engine, 0) == std::vector{ids[2]});
  terrace_offload_end_step(engine.get());

  ids = store_some(engine, source, 5);
  CHECK(expected_after(engine, 0) == std::vector{ids[1], ids[3], ids[0], ids[4], ids[2]});
  CHECK(expected_after(engine, 0, 2) == std::vector{ids[1], ids[3]});
  engine.release(ids[3]);
  CHECK(expected_after(engine, ids[1]) == std::vector{ids[0], ids[4], ids[2]});
  CHECK(expected_after(engine, ids[3]) == std::vector{ids[0], ids[4], ids[2]});
}

TEST_CASE("TheNextStepKeepsWhatWasNotReleasedAndLearnsTheOrder") {
  const Opened engine;
  const auto source = content(5000, 1);
  std::vector<std::byte> back(source.size());
  const auto old = store_some(engine, source, 3);
  for (const int i : {1, 2}) CHECK(engine.fetch(old[static_cast<std::size_t>(i)], back) == 0);
  REQUIRE(terrace_offload_next_step(engine.get()) == 0);
  CHECK(engine.statistics().dropped == 0);
  CHECK(engine.statistics().live == 3);

  const auto ids = store_some(engine, source, 3);
  CHECK(expected_after(engine, 0) == std::vector{ids[1], ids[2], ids[0]});
  CHECK(expected_after(engine, old[0]).empty());
  std::fill(back.begin(), back.end(), std::byte{0});
  CHECK(engine.fetch(old[0], back) == 0);
  CHECK(back == source);
  CHECK(expected_after(engine, 0) == std::vector{ids[1], ids[2], ids[0]});
  for (const auto id : old) engine.release(id);
  for (const auto id : ids) engine.release(id);
  CHECK(engine.statistics().live == 0);
}

TEST_CASE("TwoHundredStepsOfTensorsNeverFetchedDoNotGrow") {
  const Opened engine({.device = GENERATE("cpu", "emulated:1G"), .dram_bytes = 64 * mib});
  const auto source = content(700 * kib, 1);
  std::vector<std::byte> back(source.size());
  std::uint64_t taken = 0;
  for (int step = 0; step < 200; ++step) {
    const auto ids = store_some(engine, source, 20);
    for (const std::uint64_t id : ids)
      if (step < 2) REQUIRE(engine.left(id) == 1);  // so that all memory is there that a step can use
    for (std::size_t i = 0; i < ids.size(); i += 3) REQUIRE(engine.fetch(ids[i], back) == 0);
    for (std::size_t i = 0; i < ids.size(); i += 6) engine.release(ids[i]);
    REQUIRE(terrace_offload_end_step(engine.get()) == 0);
    if (step == 1) taken = engine.statistics().dram_bytes;
  }
  CHECK(engine.statistics().dram_bytes <= taken);
  CHECK(engine.statistics().dram_peak_bytes == taken);
  CHECK(engine.statistics().live == 0);
}

TEST_CASE("AnythingMayBeReleasedAtAnyMoment") {
  const Opened engine({.device = GENERATE("cpu", "emulated:1G,d2h=1G,h2d=1G"), .dram_bytes = 32 * mib});
  std::vector<std::byte> back(2 * mib);
  for (int round = 0; round < 40; ++round) {
    auto source = content(2 * mib, static_cast<std::uint64_t>(round));
    const std::uint64_t id = engine.store(source);
    if (round % 4 == 1) REQUIRE(engine.left(id) == 1);
    if (round % 4 >= 1) REQUIRE(terrace_offload_fetch(engine.get(), id, back.data(), nullptr) == 0);
    if (round % 4 == 3) REQUIRE(terrace_offload_arrive(engine.get(), id, nullptr) == 0);
    engine.release(id);
    std::fill(source.begin(), source.end(), std::byte{1});
    std::fill(back.begin(), back.end(), std::byte{2});
    CHECK(std::count(back.begin(), back.end(), std::byte{2}) == static_cast<std::ptrdiff_t>(back.size()));
  }
  terrace_offload_end_step(engine.get());
  CHECK(engine.statistics().live == 0);
  CHECK(engine.statistics().dram_content_bytes == 0);
}

TEST_CASE("ClosingWaitsForWhatIsUnderWay") {
  const auto source = content(4 * mib, 1);
  std::vector<std::byte> back(source.size());
  {
    const Opened engine({.device = GENERATE("cpu", "emulated:1G,d2h=500M,h2d=500M")});
    const auto ids = store_some(engine, source, 4);
    REQUIRE(engine.left(ids[0]) == 1);
    REQUIRE(terrace_offload_fetch(engine.get(), ids[0], back.data(), nullptr) == 0);
    REQUIRE(terrace_offload_fetch(engine.get(), ids[3], back.data(), nullptr) == 0);
  }
  std::fill(back.begin(), back.end(), std::byte{3});
  CHECK(back[0] == std::byte{3});
}

TEST_CASE("HostMemoryStaysWithinAFewHundredthsOfWhatIsStored") {
  const Opened engine({.device = GENERATE("cpu", "emulated:1G"), .dram_bytes = 1024 * mib});
  const auto source = content(mib + 100, 1);
  for (const std::uint64_t id : store_some(engine, source, 300)) REQUIRE(engine.left(id) == 1);
  const auto now = engine.statistics();
  CHECK(now.dram_content_bytes == 300 * source.size());
  CHECK(static_cast<double>(now.dram_peak_bytes) <= 1.05 * static_cast<double>(now.dram_content_bytes));
  terrace_offload_end_step(engine.get());
}

// Pinned memory comes and goes beside the engine.
TEST_CASE("HostMemoryThatNoStepUsesIsGivenBack") {
  const Opened engine({.device = GENERATE("cpu", "emulated:1G")});
  const auto end = GENERATE(&terrace_offload_end_step, &terrace_offload_next_step);
  const auto source = content(4 * mib, 1);
  const auto large = store_some(engine, source, 20);
  for (const std::uint64_t id : large) REQUIRE(engine.left(id) == 1);
  for (const std::uint64_t id : large) engine.release(id);
  REQUIRE(end(engine.get()) == 0);
  CHECK(engine.statistics().dram_bytes >= 80 * mib);
  // A release does not wait for the engine's threads; what they still held at a step's end goes with a later
  // one.
  for (int step = 0; step < 8 || (step < 500 && engine.statistics().dram_bytes > 8 * mib); ++step) {
    const std::uint64_t id = engine.store(source);
    REQUIRE(engine.left(id) == 1);
    engine.release(id);
    REQUIRE(end(engine.get()) == 0);
    pause_ms(10);
  }
  CHECK(engine.statistics().dram_bytes <= 8 * mib);
}
