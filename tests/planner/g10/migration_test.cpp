// The parts of the migration planner against loops, and its order of decisions against a full search.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "daemon/planner/g10/benefit_queue.h"
#include "daemon/planner/g10/slot_tree.h"

namespace terrace::planner::g10 {
namespace {

using Random = std::mt19937;

std::uint32_t below(Random& random, std::uint32_t bound) {
  return static_cast<std::uint32_t>(random() % bound);
}

std::optional<std::uint32_t> forwards_by_looking(const std::vector<std::uint64_t>& left, std::uint32_t from,
                                                 std::uint64_t bytes) {
  for (std::uint32_t slot = from; slot < left.size(); ++slot) {
    if (left[slot] >= bytes) return slot;
    bytes -= left[slot];
  }
  return std::nullopt;
}

std::optional<std::uint32_t> backwards_by_looking(const std::vector<std::uint64_t>& left, std::uint32_t end,
                                                  std::uint64_t bytes) {
  for (std::uint32_t slot = end; slot-- > 0;) {
    if (left[slot] >= bytes) return slot;
    bytes -= left[slot];
  }
  return std::nullopt;
}

TEST_CASE("A slot tree reaches as far as a loop over the slots") {
  Random random(1);
  for (int round = 0; round < 500; ++round) {
    std::vector<std::uint64_t> left(1 + below(random, 20));
    for (auto& bytes : left) bytes = below(random, 3) == 0 ? 0 : below(random, 10);
    SlotTree tree(left);
    for (int step = 0; step < 20; ++step) {
      const std::uint32_t slot = below(random, static_cast<std::uint32_t>(left.size()));
      const std::uint64_t bytes = 1 + below(random, 30);
      REQUIRE(tree.forwards(slot, bytes) == forwards_by_looking(left, slot, bytes));
      REQUIRE(tree.backwards(slot + 1, bytes) == backwards_by_looking(left, slot + 1, bytes));
      tree.set(slot, left[slot] = below(random, 10));
    }
  }
}

TEST_CASE("The sums of a slot tree end before they overflow") {
  const std::uint64_t most = std::uint64_t{1} << 63U;
  const SlotTree tree({most, most, most, 5});
  CHECK(tree.forwards(0, most + 1) == 1U);
  CHECK(tree.backwards(4, 6) == 2U);
}

TEST_CASE("Pressure lasts as long as a loop over the operations says") {
  Random random(2);
  constexpr std::uint64_t line = 310;
  for (int round = 0; round < 300; ++round) {
    const std::uint32_t ops = 1 + below(random, 20);
    std::vector<std::uint64_t> resident(ops);
    std::vector<double> time(ops);
    for (auto& bytes : resident) bytes = 300 + below(random, 60);
    for (auto& length : time) length = below(random, 10);
    Pressure pressure(resident, time, line);
    for (int step = 0; step < 15; ++step) {
      const std::uint32_t begin = below(random, ops);
      const Relief relief{begin, begin + below(random, ops), below(random, 12)};
      pressure.relieve(relief);
      for (std::uint32_t i = relief.begin; i < relief.end; ++i) resident[i % ops] -= relief.bytes;
      const std::uint32_t from = below(random, ops);
      double expected = 0;
      for (std::uint32_t op = from; op < ops; ++op) expected += resident[op] > line ? time[op] : 0;
      REQUIRE(pressure.time_above(from, ops) == expected);
      REQUIRE(pressure.above(from) == (resident[from] > line));
    }
  }
}

// A step in which `count` tensors rest, nested like the activations of a network, above half of the memory.
struct Nest {
  std::vector<Interval> intervals;
  std::vector<std::uint64_t> resident_bytes;
  std::vector<double> begin_us{0};
  MigrationRules rules;
};

template <class Size>
Nest nest_of(std::uint32_t count, Size size) {
  Nest nest;
  const std::uint32_t ops = 2 * count + 2;
  for (std::uint32_t op = 0; op < 2 * ops; ++op) nest.begin_us.push_back(nest.begin_us.back() + 100);
  nest.resident_bytes.assign(ops, 0);
  for (std::uint32_t i = 0; i < count; ++i) {
    Interval interval{i, i + 1, ops - 1 - i, false, 0, size(i)};
    interval.time_us = nest.begin_us[interval.end] - nest.begin_us[interval.start];
    for (std::uint32_t op = i; op <= interval.end; ++op) nest.resident_bytes[op] += interval.bytes;
    nest.intervals.push_back(interval);
  }
  const std::uint64_t most = *std::max_element(nest.resident_bytes.begin(), nest.resident_bytes.end());
  nest.rules.target_bytes = most / 2;
  nest.rules.host_bytes = unlimited_bytes;
  nest.rules.host = {1000, 1000, 0, 0};
  nest.rules.ssd = {100, 100, 0, 0};
  return nest;
}

TEST_CASE("The best interval is the one that a search of all finds") {
  Random random(3);
  const Nest nest = nest_of(60, [&](std::uint32_t) { return std::uint64_t{500} + below(random, 100000); });
  MigrationPlanner planner(nest.begin_us, nest.resident_bytes, nest.rules);
  Pressure pressure(nest.resident_bytes, op_times(nest.begin_us, nest.resident_bytes.size()),
                    nest.rules.target_bytes);
  BenefitQueue queue(nest.intervals, planner, pressure);
  std::vector<bool> taken(nest.intervals.size(), false);
  const auto relief_of = [&](std::uint32_t i) {
    const Relief sure = planner.sure_relief(nest.intervals[i]);
    const double time = sure.begin < sure.end ? pressure.time_above(sure.begin, sure.end) : 0;
    return taken[i] ? 0 : time * static_cast<double>(nest.intervals[i].bytes);
  };
  std::uint32_t decisions = 0;
  while (!planner.fits()) {
    double most = 0;
    for (std::uint32_t i = 0; i < taken.size(); ++i) most = std::max(most, relief_of(i));
    const auto best = queue.take_best();
    REQUIRE(best.has_value() == (most > 0));
    if (!best) break;
    CHECK(relief_of(*best) == most);
    taken[*best] = true;
    pressure.relieve(planner.use(nest.intervals[*best]).relief);
    ++decisions;
  }
  CHECK(decisions > 10);
}

TEST_CASE("Layers of one size do not make every decision look at all of them") {
  const Nest nest = nest_of(4000, [](std::uint32_t) { return std::uint64_t{1000}; });
  MigrationPlanner planner(nest.begin_us, nest.resident_bytes, nest.rules);
  Pressure pressure(nest.resident_bytes, op_times(nest.begin_us, nest.resident_bytes.size()),
                    nest.rules.target_bytes);
  BenefitQueue queue(nest.intervals, planner, pressure);
  std::uint64_t decisions = 0;
  for (; !planner.fits(); ++decisions) {
    const auto best = queue.take_best();
    REQUIRE(best);
    pressure.relieve(planner.use(nest.intervals[*best]).relief);
  }
  CHECK(decisions >= 2000);
  CHECK(queue.looks() <= (decisions + 1) * BenefitQueue::most_looks);
}

TEST_CASE("A fetch moves ahead only where its own bytes have room") {
  // The tensor rests in operations 1 to 4; while it is away, 60 of 80 bytes are in use at operation 3.
  const std::vector<std::uint64_t> resident{100, 90, 40, 90, 100, 100};
  std::vector<double> begin_us{0};
  for (int op = 0; op < 12; ++op) begin_us.push_back(begin_us.back() + 100);
  MigrationRules rules;
  rules.target_bytes = 80;
  rules.ssd = rules.host = {1, 1, 0, 0};
  MigrationPlanner planner(begin_us, resident, rules);
  REQUIRE(planner.use({7, 1, 5, false, 400, 30}).settled);
  const auto entries = planner.finish();
  REQUIRE(entries.size() == 2);
  CHECK((entries[0].op == 1 && entries[0].action == PageAction::evict_to_ssd));
  CHECK((entries[1].op == 4 && entries[1].action == PageAction::fetch));
}

}  // namespace
}  // namespace terrace::planner::g10
