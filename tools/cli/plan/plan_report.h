// What `terrace plan` found, as tables for people and as JSON (`terrace-plan` version 1) for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/cli/plan/plan_load.h"
#include "tools/cli/plan/plan_runs.h"

namespace terrace::cli {

struct PlanReport {
  const PlanInput* input = nullptr;
  const planner::Machine* machine = nullptr;  // may be null
  PlanLimits limits;
  double seconds_per_search = 0;
  std::vector<ReuseRun> reuse;
  std::vector<SwapRun> swap;
  bool interrupted = false;
  std::optional<StepBounds> bounds = {};  // in the trace's order; with a machine and a simulated step
};

std::string plan_tables(const PlanReport& report, bool exact_bytes);
nlohmann::ordered_json plan_json(const PlanReport& report);

// What an input holds: "925 operations, 2171 tensors, 133.9 GiB alive at most, …".
std::string input_summary(const PlanInput& input, bool exact_bytes);

}  // namespace terrace::cli
