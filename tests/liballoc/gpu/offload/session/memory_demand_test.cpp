#include "liballoc/gpu/offload/session/memory_demand.h"

#include <catch2/catch.hpp>

using terrace::liballoc::offload::MemoryDemand;

TEST_CASE("WhatAStepHadToGoWithoutIsWantedUntilTheNextOneHasEnded") {
  MemoryDemand demand;
  CHECK(demand.bytes(10, 100) == 10);
  demand.went_without(20);
  demand.went_without(5);
  CHECK(demand.bytes(10, 100) == 35);
  demand.end_step();
  CHECK(demand.bytes(10, 100) == 35);
  demand.went_without(30);
  CHECK(demand.bytes(10, 100) == 40);
  demand.end_step();
  CHECK(demand.bytes(10, 100) == 40);
  demand.end_step();
  CHECK(demand.bytes(10, 100) == 10);
}

TEST_CASE("NoMoreIsWantedThanTheEngineMayTake") {
  MemoryDemand demand;
  demand.went_without(~std::uint64_t{0});
  demand.went_without(1);
  CHECK(demand.bytes(10, 100) == 100);
  CHECK(demand.bytes(110, 100) == 110);
}
