// A simulated step whose timeline has been checked.
#pragma once

#include <catch2/catch.hpp>
#include <utility>
#include <vector>

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

}  // namespace terrace::planner::test
