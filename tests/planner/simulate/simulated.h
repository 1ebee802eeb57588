// A simulated step whose timeline has been checked.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <utility>
#include <vector>

#include "daemon/planner/simulate/joint/joint.h"
#include "daemon/planner/simulate/simulator.h"

namespace terrace::planner::test {

// Fails the test if the schedule is refused or the timeline contradicts itself.
inline SimulationReport simulated(const wire::Trace& trace, const Machine& machine,
                                  std::vector<wire::ScheduleEntry> entries, SimulationOptions options = {}) {
  options.record_timeline = true;
  const auto r = simulate(trace, machine, {trace.name, "by hand", std::move(entries)}, options);
  INFO(r.error);
  REQUIRE(r);
  CHECK_THAT(check_timeline(trace, machine, *r), Catch::Equals(""));
  return *r;
}

inline constexpr double never_us = std::numeric_limits<double>::infinity();
inline const SwapControl brief{0, 0.1, {}};  // keeps searches short

// The repeated step's time under the plan; never, if it cannot be carried out. Fails as above.
inline double repeated_us(const wire::Trace& trace, const Machine& machine, const SwapPlan& plan) {
  const auto r = simulate_repeated(trace, machine, plan, plan.victims, true);
  if (!r) return never_us;
  REQUIRE_THAT(check_timeline(trace, machine, *r), Catch::Equals(""));
  return r->total_us;
}

// The same; never also where there is no plan.
inline double planned_us(const wire::Trace& trace, const Machine& machine, const Result<SwapPlan>& plan) {
  return plan ? repeated_us(trace, machine, *plan) : never_us;
}

// The repeated step's time under the fastest published plan; never, if none has one.
inline double best_published_us(const wire::Trace& trace, const Machine& machine) {
  double best_us = never_us;
  for (const SwapPolicy& policy : published_swap_policies()) {
    const auto plan = policy.plan(trace, machine);
    if (plan) best_us = std::min(best_us, joint::planned_step_us(trace, machine, *plan));
  }
  return best_us;
}

}  // namespace terrace::planner::test
