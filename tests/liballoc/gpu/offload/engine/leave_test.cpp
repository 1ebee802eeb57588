// A source is the caller's behind its copy out: in the order of the stream where the device has one that
// orders the program's work, else once the host has waited.
#include <algorithm>
#include <cerrno>

#include "tests/liballoc/gpu/offload/engine_fixture.h"

using namespace terrace::liballoc::offload::test;

namespace {

constexpr const char* lagging = "emulated:1G,lag=1s";  // longer than a busy machine takes for a few calls

}  // namespace

TEST_CASE("ASourceThatLeavesIsTheCallersAtOnce") {
  const char* const device = GENERATE("cpu", "emulated:1G,d2h=200M,h2d=200M", "emulated:1G,lag=100ms",
                                      "emulated:1G,lag=100ms,d2h=200M,h2d=200M,latency=1ms");
  const char* const compress = GENERATE("off", "zvc", "auto");
  Options options{.device = device};
  options.compress = compress;
  const Opened engine(options);
  for (const std::uint64_t bytes : {std::uint64_t{1}, 100 * kib, 5 * mib + 7})
    CHECK(survives(engine, bytes, bytes, nullptr, &Opened::leave));
  CHECK(engine.statistics().handed_back == 0);
  CHECK(engine.statistics().live == 0);
}

TEST_CASE("BehindTheHostNothingHasLeftUntilTheStreamIsThere") {
  const Opened engine({.device = lagging});
  const auto source = content(mib, 1);
  const std::uint64_t before = engine.store(source);
  std::vector<std::uint64_t> ids;
  for (int i = 0; i < 20; ++i) ids.push_back(engine.store(source));
  for (const std::uint64_t id : ids) CHECK(engine.leave(id) == 1);
  CHECK(engine.statistics().host_wait_ns == 0);
  CHECK(engine.statistics().waiting_bytes == 0);
  CHECK(terrace_offload_left(engine.get(), before) == 0);  // none of their copies has been made
  for (const std::uint64_t id : ids) CHECK(terrace_offload_left(engine.get(), id) == 1);
  for (const std::uint64_t id : ids) engine.release(id);
}

// Early, and without an order: the engine reads the source when the stream is there, as a GPU would.
TEST_CASE("BehindTheHostASourceThatWasGivenAwayIsLost") {
  const Opened engine({.device = lagging});
  const auto expected = content(mib, 1);
  auto source = expected;
  const std::uint64_t id = engine.store(source);
  REQUIRE(engine.left(engine.store(expected)) == 1);  // the stream is there, and so is the first copy
  const std::uint64_t early = engine.store(source);
  std::fill(source.begin(), source.end(), std::byte{0x5a});
  const std::uint64_t behind = engine.store(expected);
  std::vector<std::byte> back(mib);
  REQUIRE(engine.left(early) == 1);
  REQUIRE(engine.fetch(early, back) == 0);
  CHECK((back == source));
  REQUIRE(engine.left(id) == 1);
  REQUIRE(engine.fetch(id, back) == 0);
  CHECK((back == expected));
  for (const std::uint64_t each : {id, early, behind}) engine.release(each);
}

TEST_CASE("WhatIsReleasedBehindTheHostMayBeOverwritten") {
  const Opened engine({.device = lagging});
  const auto expected = content(2 * mib, 1);
  std::vector<std::byte> back(expected.size());
  const std::uint64_t id = engine.store(expected);
  REQUIRE(engine.leave(id) == 1);
  REQUIRE(engine.fetch(id, back) == 0);
  CHECK((back == expected));
  REQUIRE(terrace_offload_fetch(engine.get(), id, back.data(), nullptr) == 0);
  engine.release(id);  // on its way back still
  std::fill(back.begin(), back.end(), std::byte{1});
  const std::uint64_t next = engine.store(expected);
  REQUIRE(engine.left(next) == 1);
  CHECK(std::count(back.begin(), back.end(), std::byte{1}) == static_cast<std::ptrdiff_t>(back.size()));
  engine.release(next);
}

TEST_CASE("WhatIsNotThereCannotLeave") {
  const Opened engine({.device = GENERATE("cpu", "emulated:1G,lag=1s")});
  CHECK(engine.leave(77) == -ENOENT);
  CHECK(terrace_offload_leave(nullptr, 1, nullptr) == -EINVAL);
}
