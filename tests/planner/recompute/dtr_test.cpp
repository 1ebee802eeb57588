// DTR: hand-made steps with known evictions, and random ones against the checker.
#include "daemon/planner/recompute/dtr/dtr.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "daemon/planner/recompute/dtr/evicted_classes.h"
#include "daemon/planner/recompute/dtr/evicted_reach.h"
#include "tests/planner/recompute/random_steps.h"

namespace terrace::planner::recompute {
namespace {

// Storages that were freed before any release, in order.
std::vector<std::uint32_t> freed(const DtrReport& report) {
  std::vector<std::uint32_t> all;
  for (const Move& m : report.schedule)
    if (m.kind == Move::Kind::free) all.push_back(m.index);
  return all;
}

DtrReport run(const Step& step, HeuristicKind kind, std::uint64_t budget, double most = 1) {
  return run_dtr(step, {.heuristic = kind, .budget_bytes = budget, .most_recomputing = most});
}

// Three results that all wait for the end: 0 (cost 10, 4 bytes), 1 (cost 1, 3 bytes), 2 (cost 4, 6 bytes);
// then operation 3 makes 3 (2 bytes) from nothing, and 4 reads all.
Step waiting() {
  StepBuilder builder;
  const std::pair<std::int64_t, std::uint64_t> made[] = {{10, 4}, {1, 3}, {4, 6}, {7, 2}};
  for (const auto& [cost, bytes] : made) {
    builder.add_operation(cost, {});
    builder.add_result(bytes);
  }
  builder.add_operation(1, {3});
  builder.add_result(2);
  for (const std::uint32_t s : {0U, 1U, 2U, 4U}) {
    builder.add_operation(1, {s});
    builder.add_result(1);
  }
  return builder.finish();
}

TEST_CASE("Each heuristic evicts what its formula says") {
  const Step step = waiting();
  // Full at 13 bytes; the fourth operation needs 2. Clock 15; last used: 0 at 10, 1 at 11, 2 at 15.
  //   local: 10 / (4 * 5) = 0.5, 1 / (3 * 4) = 0.08, 4 / (6 * 0) = infinite      LRU: 10, 11, 15
  //   size: 1/4, 1/3, 1/6      MSPS: 10/4, 1/3, 4/6
  CHECK(freed(run(step, HeuristicKind::dtr_local, 14)).front() == 1);
  CHECK(freed(run(step, HeuristicKind::dtr, 14)).front() == 1);
  CHECK(freed(run(step, HeuristicKind::dtr_eq, 14)).front() == 1);
  CHECK(freed(run(step, HeuristicKind::lru, 14)).front() == 0);
  CHECK(freed(run(step, HeuristicKind::size, 14)).front() == 2);
  CHECK(freed(run(step, HeuristicKind::msps, 14)).front() == 1);
}

TEST_CASE("The random heuristic repeats itself for the same seed only") {
  const Step step = test::random_step(3, 60);
  const std::uint64_t budget = (peak_bytes_of(step) + least_bytes_of(step)) / 2;
  const auto with_seed = [&](std::uint64_t seed) {
    return freed(run_dtr(step, {HeuristicKind::random, budget, seed, 10}));
  };
  CHECK(with_seed(1) == with_seed(1));
  CHECK(with_seed(1) != with_seed(2));
}

TEST_CASE("Evicted inputs come back recursively, and what the last reader has read goes") {
  // a chain of four, whose ends meet: 4 reads 0 and 3.
  StepBuilder builder;
  test::add_line(&builder, 4, 4);
  builder.add_operation(1, {3, 0, 1});
  builder.add_result(4);
  const Step step = builder.finish();
  const DtrReport roomy = run(step, HeuristicKind::lru, 1000);
  CHECK(roomy.cost_ns == 5);
  CHECK(roomy.peak_bytes == 16);
  CHECK(roomy.evictions == 0);
  CHECK(roomy.releases == 4);
  const DtrReport tight = run(step, HeuristicKind::lru, 16);
  CHECK(tight.outcome == DtrOutcome::finished);
  CHECK(tight.evictions == 0);
  CHECK(run(step, HeuristicKind::lru, 15).outcome == DtrOutcome::out_of_memory);
}

TEST_CASE("A chain of evicted storages is recomputed from its begin") {
  // 0 -> 1 -> ... -> 9; then each operation reads what the one before made, and one of the chain again.
  StepBuilder builder;
  test::add_line(&builder, 10, 1);
  std::uint32_t last = 9;
  for (const std::uint32_t s : {7U, 5U, 3U, 1U}) {
    builder.add_operation(1, {last, s});
    last = builder.add_result(1);
  }
  const Step step = builder.finish();
  const DtrReport report = run(step, HeuristicKind::lru, 4, 10);
  REQUIRE(report.outcome == DtrOutcome::finished);
  const auto runs_of_first = std::count_if(report.schedule.begin(), report.schedule.end(), [](const Move& m) {
    return m.kind == Move::Kind::compute && m.index == 0;
  });
  CHECK(runs_of_first > 1);
  const Price price = check_schedule(step, report.schedule, 4);
  CHECK(price.wrong.empty());
  CHECK(price.cost_ns == report.cost_ns);
}

TEST_CASE("Recomputing too much is thrashing, and too little room is said") {
  const Step chain = test::unit_chain(40);
  CHECK(run(chain, HeuristicKind::lru, 3).outcome == DtrOutcome::out_of_memory);
  CHECK(run(chain, HeuristicKind::lru, 6, 0.1).outcome == DtrOutcome::thrashing);
  const DtrReport bounded = run_dtr(
      chain,
      {.heuristic = HeuristicKind::lru, .budget_bytes = 6, .most_recomputing = 1e6, .most_moves = 100});
  CHECK(bounded.outcome == DtrOutcome::thrashing);
  CHECK(bounded.schedule.size() <= 102);
}

TEST_CASE("With ample budget DTR costs what the step costs") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Step step = test::random_step(seed, 80);
    for (const NamedHeuristic& h : dtr_heuristics()) {
      const DtrReport report = run(step, h.kind, peak_bytes_of(step));
      INFO(h.name << ", seed " << seed);
      REQUIRE(report.outcome == DtrOutcome::finished);
      CHECK(report.cost_ns == step.cost_ns);
      CHECK(report.peak_bytes == peak_bytes_of(step));
      CHECK(report.evictions == 0);
    }
  }
}

TEST_CASE("The checker finds DTR's schedules valid and prices them as DTR does") {
  std::uint32_t finished = 0, recomputed = 0;
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    const Step step = test::random_step(seed, 80);
    const std::uint64_t budget =
        least_bytes_of(step) + (peak_bytes_of(step) - least_bytes_of(step)) * (4 + seed % 4) / 8;
    for (const NamedHeuristic& h : dtr_heuristics()) {
      const DtrReport report = run(step, h.kind, budget, 20);
      if (report.outcome != DtrOutcome::finished) continue;
      INFO(h.name << ", seed " << seed);
      const Price price = check_schedule(step, report.schedule, budget);
      REQUIRE(price.wrong.empty());
      CHECK(price.cost_ns == report.cost_ns);
      CHECK(price.peak_bytes == report.peak_bytes);
      CHECK(price.recomputations == report.recomputations);
      ++finished;
      recomputed += report.recomputations > 0 ? 1 : 0;
    }
  }
  CHECK(finished > 100);
  CHECK(recomputed > 100);
}

// A residency of a random step in which some storages are evicted and come back.
struct Shuffled {
  explicit Shuffled(std::uint64_t seed) : step(test::random_step(seed, 50)), residency(step) {
    for (std::uint32_t s = 0; s < step.storages.size(); ++s) residency.made[s] = residency.present[s] = 1;
  }
  Step step;
  Residency residency;
};

TEST_CASE("Remembered costs of evicted surroundings are those of a fresh search") {
  std::uint32_t not_zero = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    Shuffled s(seed);
    EvictedReach above(s.residency, Towards::parents), below(s.residency, Towards::children);
    for (std::uint64_t i = 0; i < 200; ++i) {
      const auto which = static_cast<std::uint32_t>((i * 7919 + seed * 31) % s.step.storages.size());
      if (s.step.storages[which].constant()) continue;
      s.residency.present[which] ^= 1;
      above.changed(which);
      below.changed(which);
      for (std::uint32_t other = 0; other < s.step.storages.size(); ++other) {
        if (s.residency.present[other] == 0) continue;
        EvictedReach fresh_above(s.residency, Towards::parents), fresh_below(s.residency, Towards::children);
        REQUIRE(above.cost_ns(other) == fresh_above.cost_ns(other));
        REQUIRE(below.cost_ns(other) == fresh_below.cost_ns(other));
        not_zero += above.cost_ns(other) > 0 ? 1 : 0;
      }
    }
  }
  CHECK(not_zero > 1000);
}

TEST_CASE("Classes of evicted storages join, lose costs and never split") {
  // 0 -> 1 -> 2 -> 3 -> 4 with costs 1, 2, 4, 8, 16
  StepBuilder builder;
  builder.add_operation(1, {});
  builder.add_result(1);
  for (std::uint32_t i = 0; i < 4; ++i) {
    builder.add_operation(2 << i, {i});
    builder.add_result(1);
  }
  const Step step = builder.finish();
  Residency residency(step);
  for (std::uint32_t s = 0; s < 5; ++s) residency.made[s] = residency.present[s] = 1;
  EvictedClasses classes(residency);
  const auto evict = [&](std::uint32_t s) {
    residency.present[s] = 0;
    classes.evicted(s);
  };
  evict(1);
  evict(3);
  CHECK(classes.cost_around_ns(0) == 2);
  CHECK(classes.cost_around_ns(2) == 2 + 8);
  CHECK(classes.cost_around_ns(4) == 8);
  evict(2);
  CHECK(classes.cost_around_ns(0) == 2 + 4 + 8);
  residency.present[2] = 1;
  classes.came_back(2);
  CHECK(classes.cost_around_ns(0) == 2 + 8);  // one class, though 1 and 3 do not touch any more
  CHECK(classes.cost_around_ns(2) == 2 + 8);  // counted once
}

}  // namespace
}  // namespace terrace::planner::recompute
