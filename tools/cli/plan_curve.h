// `terrace plan --budget-curve`: the smallest first tier in which the step runs at all, and how long a step
// takes with that much memory and more.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/cli/plan_runs.h"

namespace terrace::cli {

struct BudgetPoint {
  std::uint64_t budget_bytes = 0;
  SwapRun run;  // valid, but for the last one of an interrupted curve
};

struct BudgetCurve {
  const wire::Trace* trace = nullptr;
  const planner::Machine* machine = nullptr;
  const char* policy = "";
  std::uint64_t needed_bytes = 0;    // by the largest operation: nothing below can run
  std::uint64_t live_bytes = 0;      // with this much nothing has to move
  std::uint64_t smallest_bytes = 0;  // that the policy found a plan for; 0: none
  std::vector<BudgetPoint> points;   // by budget, smallest first
  std::string why_not;               // there is no point at all
};

// Ten budgets, the same distance apart, from the smallest to what lives at once. What was found for less
// memory is tried again with more, so that more memory is never slower. A signal ends it with what it has.
BudgetCurve budget_curve(const planner::SwapPolicy& policy, const wire::Trace& trace,
                         const planner::Machine& machine, const PlanLimits& limits, SearchWatch& watch);

std::string curve_table(const BudgetCurve& curve, bool exact_bytes);
nlohmann::ordered_json curve_json(const BudgetCurve& curve);  // `terrace-budget-curve` version 1
// PREFIX-budgets.svg and .png, or why not.
Result<std::vector<std::string>> plot_budgets(const std::string& prefix, const BudgetCurve& curve);

}  // namespace terrace::cli
