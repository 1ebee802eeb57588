// The bound on a step's time that holds for a simulated schedule: of those that only move, or of all.
#pragma once

#include <optional>

#include "daemon/planner/simulate/bound/step_bound.h"
#include "daemon/planner/simulate/simulator.h"

namespace terrace::bench {

// Each bound is found when it is first asked for. Trace and machine must outlive it.
class LeastStep {
 public:
  // `most_instants`: as in StepBoundOptions; fewer are faster and give a lower bound.
  LeastStep(const wire::Trace& trace, const planner::Machine& machine, std::uint32_t most_instants = 0)
      : trace_(trace), machine_(machine), most_instants_(most_instants) {}

  const planner::StepBound& of(const planner::SimulationReport& report) {
    const bool recomputes = report.recompute_us > 0;
    std::optional<planner::StepBound>& bound = recomputes ? recomputing_ : moving_;
    planner::StepBoundOptions options;
    options.recomputes = recomputes;
    options.most_instants = most_instants_;
    if (!bound) bound = planner::step_bound(trace_, machine_, options);
    return *bound;
  }

 private:
  const wire::Trace& trace_;
  const planner::Machine& machine_;
  std::uint32_t most_instants_;
  std::optional<planner::StepBound> moving_, recomputing_;
};

}  // namespace terrace::bench
