// What `terrace plan` writes besides its tables: pictures, the schedule or the placement, the timeline.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/base/options.h"
#include "tools/cli/plan/plan_report.h"

namespace terrace::cli {

// Before anything is searched: which output no chosen policy could make, and which has no folder to be
// written into. Empty if none.
std::string output_without_policy(const PlanOptions& options, const ChosenPolicies& chosen);
std::string output_without_folder(const PlanOptions& options);

struct PlanFiles {
  std::vector<std::string> written;
  std::vector<std::string> errors;
};

// What is best among the runs: the answer first, then timeline and pictures, each tried whatever became of
// the others. What an interrupted search has not found is left out without an error.
PlanFiles write_plan_files(const PlanOptions& options, const PlanReport& report);

// `terrace-placement` version 1: each buffer with its life, bytes and offset; docs/formats/plan.md.
std::string placement_json(const planner::Instance& instance, const ReuseRun& run);

}  // namespace terrace::cli
