// What a store does that finds no host memory: the daemon may grant more, and takes a moment for it.
#include <catch2/catch.hpp>

#include "tests/liballoc/gpu/offload/session/session_fixture.h"

using namespace terrace::liballoc::offload::test;
using namespace terrace::tests;

namespace {

// An engine that has 60 of the 64 MiB that its job is granted, and might take 256.
struct AlmostFull {
  explicit AlmostFull(const char* device) : engine({.device = device, .dram_bytes = 256 * mib}) {
    REQUIRE(engine.left(engine.store(first)) == 1);
  }

  const std::vector<std::byte> first = content(60 * mib, 1);
  ServerThread server;
  const JobOf job{server.socket(), "64M"};
  const Opened engine;
};

}  // namespace

TEST_CASE("AStoreWithoutRoomWaitsForALargerGrant") {
  const AlmostFull full(GENERATE("cpu", "emulated:1G"));
  const Opened& engine = full.engine;
  const auto second = content(8 * mib, 2);
  const std::uint64_t other = engine.store(second);
  CHECK(engine.statistics().waiting_bytes == 8 * mib);
  set_budget(full.server.socket(), 128 * mib);
  REQUIRE(engine.left(other) == 1);
  std::vector<std::byte> back(second.size());
  REQUIRE(engine.fetch(other, back) == 0);
  CHECK((back == second));
}

TEST_CASE("WhereNoLargerGrantComesAStoreIsRefusedAndTheNextAtOnce") {
  const AlmostFull full(GENERATE("cpu", "emulated:1G"));
  const Opened& engine = full.engine;
  const auto second = content(8 * mib, 2);
  const std::uint64_t other = engine.store(second);
  CHECK(engine.left(other) == -ENOSPC);
  CHECK(engine.statistics().waiting_bytes == 0);
  std::uint64_t none = 0;
  CHECK(engine.try_store(second, &none) == -ENOSPC);
  // What has come and was used up may come again.
  set_budget(full.server.socket(), 65 * mib);
  CHECK(eventually([&] { return engine.statistics().dram_limit_bytes == 65 * mib; }));
  CHECK(engine.left(engine.store(second)) == -ENOSPC);
}

TEST_CASE("WhatIsLargerThanAllTheEngineMayTakeWaitsForNoGrant") {
  ServerThread server;
  const JobOf job(server.socket(), "32M");
  const Opened engine({.device = GENERATE("cpu", "emulated:1G"), .dram_bytes = 64 * mib});
  const auto too_large = content(65 * mib, 1);
  std::uint64_t none = 0;
  CHECK(engine.try_store(too_large, &none) == -ENOSPC);
}
