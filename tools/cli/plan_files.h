// What `terrace plan` writes besides its tables: pictures, the schedule or the placement, the timeline.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/options.h"
#include "tools/cli/plan_report.h"

namespace terrace::cli {

// The paths written, or why one was not. What is best among the runs is what is written.
Result<std::vector<std::string>> write_plan_files(const PlanOptions& options, const PlanReport& report);

// `terrace-placement` version 1: each buffer with its life, bytes and offset; docs/formats/plan.md.
std::string placement_json(const planner::Instance& instance, const ReuseRun& run);

// Replaces `path` by `content` in one step, so that a reader never finds half of it; gzip where it ends in
// ".gz". An empty text, or why not.
std::string write_whole(const std::string& path, const std::string& content);

}  // namespace terrace::cli
