// Which capacities `terrace bench planner --only capacities` tries, and for how long.
#include "tools/bench/planner/capacity_turns.h"

#include <catch2/catch.hpp>
#include <set>
#include <vector>

using terrace::bench::CapacityTurns;

namespace {

constexpr std::uint64_t granule = 1024;
constexpr std::uint64_t bound = 900 * granule;
constexpr std::uint64_t first_plan = 1000 * granule;

// Turns until what is left has nodes that are twice as many.
std::vector<CapacityTurns::Turn> undecided_round(CapacityTurns* turns) {
  std::vector<CapacityTurns::Turn> round{turns->next()};
  for (turns->undecided(); turns->next().nodes == round[0].nodes; turns->undecided())
    round.push_back(turns->next());
  return round;
}

}  // namespace

TEST_CASE("A solver that decides everything closes at the least capacity, in few turns", "[capacities]") {
  const std::uint64_t least = GENERATE(900, 901, 937, 950, 998, 999, 1000) * granule;
  CapacityTurns turns(bound, granule, first_plan);
  int taken = 0;
  for (; !turns.closed() && taken < 100; ++taken) {
    const std::uint64_t capacity = turns.next().capacity_bytes;
    REQUIRE(capacity % granule == 0);
    REQUIRE(capacity > turns.infeasible_bytes());
    REQUIRE(capacity < turns.found_bytes());
    if (capacity >= least) {
      turns.found(capacity);
    } else {
      turns.infeasible();
    }
  }
  CHECK(turns.closed());
  CHECK(turns.found_bytes() == least);
  CHECK(turns.infeasible_bytes() == least - 1);
  CHECK(taken <= 20);
}

TEST_CASE("A round that decides nothing gives five places the same, and the next one twice that",
          "[capacities]") {
  CapacityTurns turns(bound, granule, first_plan);
  const auto first = undecided_round(&turns);
  const auto second = undecided_round(&turns);
  REQUIRE(first.size() == 5);
  REQUIRE(second.size() == 5);
  const std::vector<std::uint64_t> places{999, 988, 975, 950, 900};
  for (std::size_t i = 0; i < places.size(); ++i) {
    CHECK(first[i].capacity_bytes == places[i] * granule);
    CHECK(second[i].capacity_bytes == first[i].capacity_bytes);
    CHECK(second[i].nodes == 2 * first[i].nodes);
    CHECK(second[i].seed != first[i].seed);
  }
  CHECK_FALSE(turns.closed());
  CHECK(turns.found_bytes() == first_plan);
  CHECK(turns.infeasible_bytes() == bound - 1);
}

TEST_CASE("Where little is open no capacity has two turns in a round", "[capacities]") {
  const std::uint64_t open = GENERATE(1, 2, 3, 8, 9);
  CapacityTurns turns(bound, granule, bound + open * granule);
  std::set<std::uint64_t> seen;
  const auto round = undecided_round(&turns);
  for (const CapacityTurns::Turn& turn : round) seen.insert(turn.capacity_bytes);
  CHECK(seen.size() == round.size());
  CHECK(seen.contains(bound));
  CHECK(seen.contains(bound + (open - 1) * granule));
}

TEST_CASE("Success just below doubles the step, and a failure takes it back", "[capacities]") {
  CapacityTurns turns(bound, granule, first_plan);
  for (const std::uint64_t expected : {999, 997, 993}) {
    REQUIRE(turns.next().capacity_bytes == expected * granule);
    turns.found(expected * granule);
  }
  REQUIRE(turns.next().capacity_bytes == 985 * granule);
  turns.undecided();
  CHECK(turns.next().capacity_bytes == 992 * granule);
}

TEST_CASE("What is found below the capacity that was asked for counts", "[capacities]") {
  CapacityTurns turns(bound, granule, first_plan);
  turns.found(920 * granule);
  CHECK(turns.found_bytes() == 920 * granule);
  CHECK(turns.next().capacity_bytes == 918 * granule);
}

TEST_CASE("A proof lets the next one go further, and an open one takes that back", "[capacities]") {
  CapacityTurns turns(bound, granule, first_plan);
  while (turns.next().capacity_bytes != bound) turns.undecided();
  const std::uint64_t nodes = turns.next().nodes;
  for (const std::uint64_t expected : {900, 902, 905, 910}) {
    REQUIRE(turns.next().capacity_bytes == expected * granule);
    turns.infeasible();
  }
  CHECK(turns.infeasible_bytes() == 911 * granule - 1);
  turns.undecided();
  CHECK(turns.next().capacity_bytes == 911 * granule);
  CHECK(turns.next().nodes == nodes);
  turns.undecided();
  CHECK(turns.next().nodes == 2 * nodes);
}

TEST_CASE("A proof that goes further stays below what is found", "[capacities]") {
  CapacityTurns turns(bound, granule, bound + 4 * granule);
  while (turns.next().capacity_bytes != bound) turns.undecided();
  for (const std::uint64_t expected : {900, 902, 903}) {
    REQUIRE(turns.next().capacity_bytes == expected * granule);
    turns.infeasible();
  }
  CHECK(turns.closed());
}

TEST_CASE("A proof between the two keeps the rest of the round off what it decided", "[capacities]") {
  CapacityTurns turns(bound, granule, first_plan);
  while (turns.next().capacity_bytes != 950 * granule) turns.undecided();
  turns.infeasible();
  CHECK(turns.infeasible_bytes() == 951 * granule - 1);
  CHECK(turns.next().capacity_bytes == 999 * granule);
  for (int i = 0; i < 12; ++i, turns.undecided()) CHECK(turns.next().capacity_bytes > 950 * granule);
}
