// `terrace plan --budget-curve`: the smallest first tier in which the step runs at all, and how long a step
// takes with that much memory and more.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "liballoc/wire/amount.h"
#include "tools/cli/plan/plan_runs.h"
#include "tools/cli/point/point.h"

namespace terrace::cli {

struct BudgetPoint {
  std::uint64_t budget_bytes = 0;
  SwapRun run;  // valid, but for the last one of an interrupted curve
};

// What a job took that ran, with the budget that it had.
struct MeasuredPoint {
  std::uint64_t budget_bytes = 0;  // 0: not known
  double step_us = 0;              // on the average
  double waited_us = 0;            // of it
  double moved_bytes = 0;          // read and written in a step
  std::uint64_t steps = 0;         // that this is the average of
};

struct BudgetCurve {
  const wire::Trace* trace = nullptr;
  const planner::Machine* machine = nullptr;
  std::string policy;
  std::uint64_t needed_bytes = 0;    // by the largest operation: nothing below can run
  std::uint64_t live_bytes = 0;      // with this much nothing has to move
  std::uint64_t smallest_bytes = 0;  // that the policy found a plan for; 0: none
  std::vector<BudgetPoint> points;   // by budget, smallest first
  std::string why_not;               // there is no point at all
  std::optional<MeasuredPoint> measured = {};
  std::uint64_t asked_bytes = 0;  // a budget that was asked for; 0: none
};

// Ten budgets, the same distance apart, from the smallest to what lives at once. What was found for less
// memory is tried again with more, so that more memory is never slower. A measured point's budget is one
// more, where the step can run in it, and so is `asked`, of what lives at once. A signal ends it with what it
// has.
BudgetCurve budget_curve(const planner::SwapPolicy& policy, const wire::Trace& trace,
                         const planner::Machine& machine, const PlanLimits& limits, SearchWatch& watch,
                         const std::optional<MeasuredPoint>& measured = {},
                         const std::optional<wire::Amount>& asked = {});

std::string curve_table(const BudgetCurve& curve, bool exact_bytes);
nlohmann::ordered_json curve_json(const BudgetCurve& curve);  // `terrace-budget-curve` version 1
// The point that was asked for, of a job whose program is `program`; or why the curve has none.
Result<PlanPoint> asked_point(const BudgetCurve& curve, const std::string& program);
// PREFIX-budgets.svg and .png, or why not.
Result<std::vector<std::string>> plot_budgets(const std::string& prefix, const BudgetCurve& curve);

}  // namespace terrace::cli
