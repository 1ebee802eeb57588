// Coop and its addresses: known rows, known evictions, and random steps against the two judges.
#include "daemon/planner/recompute/dtr/coop.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "daemon/planner/recompute/dtr/addresses.h"
#include "tests/planner/recompute/random_steps.h"

namespace terrace::planner::recompute {
namespace {

using Storages = std::vector<std::uint32_t>;

// | 0: 10 | 1: 20 | free: 5 | 2: 30 | free: 10 |
Addresses five_blocks() {
  Addresses memory(75);
  CHECK(memory.take(10, 0, End::low) == 0);
  CHECK(memory.take(20, 1, End::low) == 10);
  CHECK(memory.take(5, 9, End::low) == 30);
  CHECK(memory.take(30, 2, End::low) == 35);
  memory.give_back(30);
  return memory;
}

Storages row_of(const Addresses& memory, std::uint64_t bytes, const std::map<std::uint32_t, double>& costs) {
  return memory.cheapest_row(bytes, [&](std::uint32_t s) -> std::optional<double> {
    const auto found = costs.find(s);
    return found == costs.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST_CASE("A block comes from the smallest hole that is large enough, at the end that was asked for") {
  Addresses memory = five_blocks();
  CHECK(memory.largest_free_bytes() == 10);
  CHECK(memory.take(4, 3, End::high) == 31);
  CHECK(memory.take(2, 4, End::low) == 65);
  CHECK(memory.take(3, 5, End::high) == 72);
  CHECK(memory.take(6, 6, End::low) == std::nullopt);
  CHECK(memory.take(5, 6, End::low) == 67);
}

TEST_CASE("Free blocks join with both neighbours") {
  Addresses memory = five_blocks();
  memory.give_back(35);
  CHECK(memory.largest_free_bytes() == 45);
  memory.give_back(0);
  CHECK(memory.largest_free_bytes() == 45);
  memory.give_back(10);
  CHECK(memory.take(75, 0, End::low) == 0);
}

TEST_CASE("The cheapest row counts what is free in it, and breaks at what cannot go") {
  const Addresses memory = five_blocks();
  CHECK(row_of(memory, 40, {{0, 1}, {1, 1}, {2, 1}}) == Storages{2});  // with the hole behind it
  CHECK(row_of(memory, 40, {{0, 1}, {1, 1}, {2, 9}}) == Storages{2});  // 0, 1 and the hole have 35
  CHECK(row_of(memory, 35, {{0, 1}, {1, 1}, {2, 9}}) == Storages{0, 1});
  CHECK(row_of(memory, 25, {{0, 1}, {1, 1}, {2, 9}}) == Storages{1});
  CHECK(row_of(memory, 36, {{0, 1}, {2, 9}}) == Storages{2});  // 1 cannot go
  CHECK(row_of(memory, 50, {{0, 1}, {1, 1}}).empty());
}

// Four results of 4 bytes each, 0 to 3, of which 1 and 3 cost little; some time; then one of 8 bytes.
constexpr std::uint32_t large = 5;  // operation
Step alternating() {
  StepBuilder builder;
  for (const std::int64_t cost : {51, 10, 60, 10}) {
    builder.add_operation(cost, {});
    builder.add_result(4);
  }
  builder.add_operation(20, {});
  builder.add_operation(10, {});
  builder.add_result(8);
  for (const std::uint32_t s : {0U, 1U, 2U, 3U, 4U}) {
    builder.add_operation(1, {s});
    builder.add_result(0);
  }
  return builder.finish();
}

Storages freed_before_the_large_one(const DtrReport& report) {
  Storages freed;
  for (const Move& m : report.schedule) {
    if (m.kind == Move::Kind::compute && m.index == large) break;
    if (m.kind == Move::Kind::free) freed.push_back(m.index);
  }
  return freed;
}

TEST_CASE("DTR evicts for addresses until a row happens to be free, Coop the cheapest row") {
  const Step step = alternating();
  // Clock 151, last used at 51, 61, 121, 131: c / a is 0.51, 0.11, 2, 0.5.
  // DTR: | 0 | 1 | 2 | 3 |. 1 and 3 cost least and lie apart, so that a third one goes.
  const DtrReport dtr =
      run_dtr(step, {.heuristic = HeuristicKind::dtr_local, .budget_bytes = 16, .space = Space::addresses});
  CHECK(freed_before_the_large_one(dtr) == Storages{1, 3, 0});
  // Coop: | 1 | 3 | 2 | 0 |. 0 and 2 are expensive for their bytes.
  const DtrReport coop = run_coop(step, 16);
  CHECK(freed_before_the_large_one(coop) == Storages{1, 3});
  CHECK(coop.addresses[0] == 12);
  CHECK(coop.addresses[1] == 0);
}

TEST_CASE("Blocks over each other, beyond the budget, or too few are found") {
  const Step step = alternating();
  DtrReport report = run_coop(step, 24);
  REQUIRE(check_addresses(step, report, 24).empty());
  const std::vector<std::uint64_t> right = report.addresses;
  report.addresses[1] = report.addresses[0] + 1;
  CHECK(check_addresses(step, report, 24).find("is taken") != std::string::npos);
  report.addresses = right;
  report.addresses[2] = 21;
  CHECK(!check_addresses(step, report, 24).empty());
  report.addresses = right;
  report.addresses.push_back(0);
  CHECK(check_addresses(step, report, 24) == "there are more blocks than results");
  report.addresses.resize(2);
  CHECK(!check_addresses(step, report, 24).empty());
}

TEST_CASE("Schedules with addresses pass both judges") {
  std::uint32_t finished = 0, recomputed = 0;
  for (std::uint64_t seed = 0; seed < 160; ++seed) {
    const Step step = test::random_step(seed, 80);
    const std::uint64_t least = least_bytes_of(step), peak = peak_bytes_of(step);
    const std::uint64_t budget = least + (peak - least) * (8 + seed % 4) / 8;
    const auto with = [&](HeuristicKind kind, Space space) {
      return run_dtr(step,
                     {.heuristic = kind, .budget_bytes = budget, .most_recomputing = 20, .space = space});
    };
    const DtrReport coop = with(HeuristicKind::coop, Space::windows);
    const DtrReport dtr = with(HeuristicKind::dtr_eq, Space::addresses);
    for (const DtrReport* report : {&coop, &dtr}) {
      if (report->outcome != DtrOutcome::finished) continue;
      INFO("seed " << seed << (report == &coop ? ", Coop" : ", DTR"));
      const Price price = check_schedule(step, report->schedule, budget);
      REQUIRE(price.wrong.empty());
      CHECK(price.cost_ns == report->cost_ns);
      CHECK(price.peak_bytes == report->peak_bytes);
      REQUIRE(check_addresses(step, *report, budget).empty());
      ++finished;
      recomputed += report->recomputations > 0 ? 1 : 0;
    }
  }
  CHECK(finished > 100);
  CHECK(recomputed > 50);
}

TEST_CASE("A budget below the constants is out of memory with addresses, too") {
  StepBuilder builder;
  const std::uint32_t weight = builder.add_constant(100);
  builder.add_operation(1, {weight});
  builder.add_result(1);
  CHECK(run_coop(builder.finish(), 99).outcome == DtrOutcome::out_of_memory);
}

}  // namespace
}  // namespace terrace::planner::recompute
