// Policies carried out and judged: each placement goes through check_placement(), each simulated step through
// check_timeline(), always.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "daemon/planner/reuse/instance.h"
#include "daemon/planner/simulate/addresses/addresses.h"
#include "daemon/planner/simulate/bound/step_bound.h"
#include "daemon/planner/simulate/policies/zero_offload.h"
#include "daemon/planner/simulate/simulator.h"
#include "tools/cli/plan/search_watch.h"

namespace terrace::cli {

struct PlanLimits {
  std::uint64_t seed = 0;
  std::uint64_t capacity_bytes = 0;            // 0: none
  double effort = 1;                           // of swap policies that search: SwapControl
  std::optional<planner::SwapPlan> from = {};  // what `joint` begins with
};

struct ReuseRun {
  planner::ReusePolicy policy;
  std::optional<planner::Placement> placement;
  double seconds = 0;
  bool stopped = false;  // by its time or by a signal: the best so far
  std::string why_not;   // there is no placement
  std::string wrong;     // the judge's verdict; empty: valid
  bool valid() const { return placement && wrong.empty(); }
};

// No step in that order of the operations is faster.
struct StepBounds {
  planner::StepBound moving;                      // that recomputes nothing
  std::optional<planner::StepBound> recomputing;  // whatever it does; if one of them did

  const planner::StepBound& of(const planner::SimulationReport& report) const {
    return report.recompute_us > 0 && recomputing ? *recomputing : moving;
  }
};

struct SwapRun {
  planner::SwapPolicy policy;
  std::optional<planner::SwapPlan> schedule;
  std::optional<planner::SimulationReport> report;  // without its timeline unless it is the best
  // Of what the report keeps in tier 0; absent: the tier is paged, or has no limit.
  std::optional<planner::Addresses> addresses;
  double seconds = 0;
  bool stopped = false;  // by its time or by a signal: the best so far
  std::string why_not;
  std::string wrong;
  // The policy takes the update out of the step: the report is of one step without it, there is no schedule
  // of the step that was given, and no bound of its time holds.
  bool of_another_step = false;
  std::optional<StepBounds> bounds_in_its_order = {};  // where the plan has an order of its own
  bool valid() const { return report && wrong.empty(); }
};

// How many policies matter: those asked for, or all.
struct ChosenPolicies {
  std::vector<planner::ReusePolicy> reuse;
  std::vector<planner::SwapPolicy> swap;
  std::vector<planner::UpdatePolicy> update;
  bool moves() const { return !swap.empty() || !update.empty(); }
};

// "all", or names. With `with_machine` swap policies and those that
// take the update out count for "all". Refuses a name that there is none of.
Result<ChosenPolicies> choose_policies(const std::vector<std::string>& names, bool with_machine);

ReuseRun run_policy(const planner::ReusePolicy& policy, const planner::Instance& instance,
                    const PlanLimits& limits, SearchWatch& watch);
SwapRun run_policy(const planner::SwapPolicy& policy, const wire::Trace& trace,
                   const planner::Machine& machine, const PlanLimits& limits, SearchWatch& watch);

SwapRun run_policy(const planner::UpdatePolicy& policy, const wire::Trace& trace,
                   const planner::Machine& machine, const PlanLimits& limits, SearchWatch& watch);

// The valid one that needs least memory, or takes least time; null if none is valid. A step without its
// update is not set beside the others.
const ReuseRun* best_of(const std::vector<ReuseRun>& runs);
const SwapRun* best_of(const std::vector<SwapRun>& runs);

}  // namespace terrace::cli
