// Plans a period: which of its objects leave DRAM when, and when each comes back, within the job's budget.
//
//   period ─▶ step_of() ─▶ policy ─▶ entries that only move ─▶ simulated ─▶ schedule image, or why there is
//   none
//
// A plan is handed out only if the simulator carries it out, it leaves as little open as it can
// (completed_plan.h), and it is not slower than moving on demand with knowledge of the future (Belady's
// rule), which no reactive policy has. The machine has two tiers: what the budget leaves of DRAM, and the
// pool with the speeds that the job measured. Pure: no clock, no I/O; one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/planner/simulate/simulator.h"
#include "daemon/planning/period_step.h"
#include "liballoc/wire/period/image.h"
#include "liballoc/wire/period/policy_names.h"
#include "liballoc/wire/result.h"

namespace terrace::daemon {

struct PlanSettings {
  std::string policy{wire::default_policy};  // for jobs that ask for none
  std::uint64_t pool_bytes = planner::unlimited_bytes;
};

struct PeriodPlan {
  std::string image;  // schedule/image.h
  std::string policy;
  std::uint32_t entries = 0;
  double step_us = 0;       // as the simulator predicts it
  double on_demand_us = 0;  // the same without a plan
  double computing_us = 0;
};

// The budget's part that no object may have: what is on its way out or in, in whole runs.
std::uint64_t reserve_bytes(std::uint64_t budget_bytes);

class PeriodPlanner {
 public:
  // What a policy that cannot be stopped may have to look at: such a plan takes less than two seconds.
  static constexpr std::uint64_t most_names = 150'000;

  // The period is looked at here only.
  PeriodPlanner(const wire::PeriodView& period, const PlanSettings& settings);

  // The policy by its name, also where it is not known.
  const std::string& policy() const { return policy_; }
  // A plan in a time that the bound above limits; or why there is none, as a sentence without a full stop.
  Result<PeriodPlan> quick();
  // Whether better() may find one that quick() does not.
  bool searches() const { return refusal_.empty() && policy_ == "joint"; }
  // The best that a search finds until it is stopped, if it is at least 1% faster than quick()'s.
  std::optional<PeriodPlan> better(const planner::SwapControl& control);

 private:
  void look(const wire::PeriodView& period, const PlanSettings& settings);
  void compare_with_demand();
  Result<planner::SimulationReport> complete(planner::SwapPlan* plan) const;
  Result<PeriodPlan> judge(planner::SwapPlan plan) const;
  Result<planner::SimulationReport> simulate(const planner::SwapPlan& plan) const;

  std::string policy_;
  std::string refusal_;  // no plan is possible, and why
  PeriodStep step_;
  planner::Machine machine_;
  double computing_us_ = 0, on_demand_us_ = 0;
  double quick_us_ = 0;  // 0: there is none
};

}  // namespace terrace::daemon
