#include "liballoc/gpu/offload/session/memory_demand.h"

#include <catch2/catch.hpp>

using terrace::liballoc::offload::MemoryDemand;

TEST_CASE("WhatAStepHadToGoWithoutIsWantedUntilTheNextOneHasEnded") {
  MemoryDemand demand;
  CHECK(demand.bytes(10, 100) == 10);
  demand.went_without(20, 1);
  demand.went_without(5, 1);
  CHECK(demand.bytes(10, 100) == 35);
  demand.end_step();
  CHECK(demand.bytes(10, 100) == 35);
  demand.went_without(30, 1);
  CHECK(demand.bytes(10, 100) == 40);
  demand.end_step();
  CHECK(demand.bytes(10, 100) == 40);
  demand.end_step();
  CHECK(demand.bytes(10, 100) == 10);
}

TEST_CASE("NoMoreIsWantedThanTheEngineMayTake") {
  MemoryDemand demand;
  demand.went_without(~std::uint64_t{0}, 1);
  demand.went_without(1, 1);
  CHECK(demand.bytes(10, 100) == 100);
  CHECK(demand.bytes(110, 100) == 110);
}

TEST_CASE("AnAnswerIsAwaitedForASecondAndAgainOnceOneHasCome") {
  constexpr std::uint64_t second_ns = 1'000'000'000;
  MemoryDemand demand;
  CHECK_FALSE(demand.awaits_answer(1));
  demand.went_without(20, 5);
  demand.went_without(20, second_ns);
  CHECK(demand.awaits_answer(second_ns + 4));
  CHECK_FALSE(demand.awaits_answer(second_ns + 5));
  demand.end_step();
  demand.went_without(20, 2 * second_ns);
  CHECK_FALSE(demand.awaits_answer(2 * second_ns));
  demand.was_granted_more();
  CHECK_FALSE(demand.awaits_answer(2 * second_ns));
  demand.went_without(20, 3 * second_ns);
  CHECK(demand.awaits_answer(3 * second_ns));
}
