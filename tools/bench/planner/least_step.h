// The bound on a step's time that holds for a simulated schedule, of those that only move or of all, and the
// row of a table that sets the schedule beside it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "daemon/planner/order/scheduled.h"
#include "daemon/planner/simulate/addresses/addresses.h"
#include "daemon/planner/simulate/bound/step_bound.h"
#include "daemon/planner/simulate/simulator.h"
#include "tools/bench/planner/parts.h"

namespace terrace::bench {

// Each bound is found when it is first asked for. Trace and machine must outlive it.
class LeastStep {
 public:
  // `most_instants`: as in StepBoundOptions; fewer are faster and give a lower bound.
  LeastStep(const wire::Trace& trace, const planner::Machine& machine, std::uint32_t most_instants = 0)
      : trace_(trace), machine_(machine), most_instants_(most_instants) {}

  const planner::StepBound& of_moving() { return found(&moving_, false); }
  const planner::StepBound& of_recomputing() { return found(&recomputing_, true); }
  const planner::StepBound& of(const planner::SimulationReport& report) {
    return report.recompute_us > 0 ? of_recomputing() : of_moving();
  }

  // The bounds of the same step in the order that a schedule has.
  LeastStep in_order_of(const wire::Schedule& schedule) const {
    LeastStep other(trace_, machine_, most_instants_);
    other.in_order_ = planner::in_order(trace_, schedule.operations);
    return other;
  }

  // For a schedule with an order of its own, give the bounds of that order. Adds to a table's row how the
  // schedule's step does beside the bound, and under the key `verdict` whether its timeline is right and no
  // better than that; or a note that says what is wrong.
  void judge(const wire::Schedule& schedule, planner::Victims victims, const char* verdict, Json* row) {
    constexpr std::uint32_t steps = 2;  // the second is reported: what persists has found its place
    if (!schedule.operations.empty()) (*row)["reordered"] = planner::moved_operations(schedule.operations);
    const auto report = planner::simulate(trace_, machine_, schedule,
                                          {.victims = victims, .steps = steps, .record_timeline = true});
    if (!report) {
      (*row)["note"] = "does not fit";
      return;
    }
    const double bound_us = of(*report).step_us;
    add_slowdown(row, *report, bound_us);
    const std::string wrong = planner::check_timeline(trace_, machine_, *report);
    (*row)[verdict] = wrong.empty() && report->total_us >= bound_us * (1 - 1e-9);
    if (!wrong.empty()) (*row)["note"] = wrong;
    if (wrong.empty()) add_addresses(*report, verdict, row);
  }

 private:
  const wire::Trace& trace_;
  const planner::Machine& machine_;
  std::uint32_t most_instants_;
  std::optional<wire::Trace> in_order_;  // none: as it is
  std::optional<planner::StepBound> moving_, recomputing_;

  // "address_share": what addresses need, to the most bytes at once; whether they fit, and repeat.
  void add_addresses(const planner::SimulationReport& report, const char* verdict, Json* row) const {
    const auto addresses = planner::addresses_of(machine_, report);
    if (!addresses) {
      (*row)[verdict] = false;
      (*row)["note"] = addresses.error;
      return;
    }
    (*row)["peak_bytes"] = addresses->peak_bytes;
    (*row)["address_bytes"] = addresses->needed_bytes;
    (*row)["address_share"] = static_cast<double>(addresses->needed_bytes) /
                              static_cast<double>(std::max<std::uint64_t>(1, addresses->peak_bytes));
    (*row)["addresses_fit"] = addresses->fit;
    (*row)["addresses_repeat"] = addresses->repeat;
  }

  const planner::StepBound& found(std::optional<planner::StepBound>* bound, bool recomputes) const {
    planner::StepBoundOptions options;
    options.recomputes = recomputes;
    options.most_instants = most_instants_;
    if (!*bound) *bound = planner::step_bound(in_order_ ? *in_order_ : trace_, machine_, options);
    return **bound;
  }
};

}  // namespace terrace::bench
