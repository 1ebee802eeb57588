// What was done on demand becomes entries: afterwards nothing is, and the step is no slower.
#include "daemon/planning/completed_plan.h"

#include <catch2/catch.hpp>

#include "daemon/planning/period_step.h"
#include "tests/daemon/planning/made_periods.h"

namespace terrace::daemon {
namespace {

using planner::SimulationReport;
using planner::SwapPlan;
using planner::Victims;

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

struct SmallMachine {
  explicit SmallMachine(std::uint64_t dram_bytes, double bytes_per_second = 2e9) {
    const std::string image = tests::image_of(tests::training_step().draft(dram_bytes));
    step = step_of(wire::open_period(std::as_bytes(std::span(image))).view);
    machine.tiers = {{"dram", dram_bytes}, {"pool", planner::unlimited_bytes}};
    machine.links = {{"drive", bytes_per_second, bytes_per_second, 100, 100}};
    machine.routes = {{1, {0}}};
  }
  SwapPlan on_demand() const { return {{"period", "on demand", {}}, Victims::belady}; }
  SimulationReport run(const SwapPlan& plan) const {
    planner::SimulationOptions options;
    options.victims = Victims::belady;
    options.steps = 2;
    options.record_timeline = true;
    auto report = planner::simulate(step.trace, machine, plan, options);
    INFO(report.error);
    REQUIRE(report);
    return std::move(*report);
  }

  PeriodStep step;
  planner::Machine machine;
};

std::size_t on_demand_in(const SimulationReport& report) {
  return static_cast<std::size_t>(std::count_if(report.transfers.begin(), report.transfers.end(),
                                                [](const planner::Transfer& t) { return t.on_demand; }));
}

// Completed so often until nothing is open, a few times at most.
SwapPlan whole(const SmallMachine& m, SwapPlan plan) {
  for (int i = 0; i < 6 && on_demand_in(m.run(plan)) > 0; ++i)
    plan = completed(m.step.trace, plan, m.run(plan));
  return plan;
}

}  // namespace

TEST_CASE("A completed plan leaves nothing to be done on demand and is no slower") {
  const SmallMachine m(GENERATE(700 * mib, 500 * mib, 300 * mib));
  const SimulationReport before = m.run(m.on_demand());
  REQUIRE(on_demand_in(before) > 0);
  REQUIRE(before.stalls.total_us() > 0);
  const SwapPlan plan = whole(m, m.on_demand());
  const SimulationReport after = m.run(plan);
  CHECK(on_demand_in(after) == 0);
  CHECK(after.total_us < before.total_us);
  CHECK(planner::check_timeline(m.step.trace, m.machine, after).empty());
}

TEST_CASE("What leaves in a completed plan does so between two uses and returns before the second one") {
  const SmallMachine m(500 * mib);
  const SwapPlan plan = completed(m.step.trace, m.on_demand(), m.run(m.on_demand()));
  REQUIRE_FALSE(plan.entries.empty());
  CHECK(std::is_sorted(plan.entries.begin(), plan.entries.end(),
                       [](const auto& a, const auto& b) { return a.at < b.at; }));
  for (const wire::ScheduleEntry& e : plan.entries) {
    CHECK(wire::moves(e.action));
    CHECK(e.by >= e.at);
    CHECK(e.by != wire::no_deadline);
    if (m.step.trace.tensors[e.object].persistent) continue;
    std::size_t uses_before = 0, uses_from = 0;
    for (std::uint32_t op = 0; op < m.step.trace.ops.size(); ++op)
      for (const auto* names : {&m.step.trace.ops[op].inputs, &m.step.trace.ops[op].outputs})
        for (const std::uint32_t t : *names)
          if (t == e.object) ++(op < e.at ? uses_before : uses_from);
    CHECK(uses_before > 0);
    CHECK(uses_from > 0);
  }
}

TEST_CASE("A plan that leaves nothing open is complete") {
  const SmallMachine m(500 * mib);
  const SwapPlan plan = whole(m, m.on_demand());
  CHECK(completed(m.step.trace, plan, m.run(plan)).entries.size() == plan.entries.size());
}

}  // namespace terrace::daemon
