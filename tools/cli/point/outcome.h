// What became of a job that ran at a chosen point of a budget curve: predicted beside measured. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tools/cli/point/point.h"

namespace terrace::cli {

// `counters` are the job's totals, with the daemon's names (liballoc/wire/segment.h), null when they are
// unknown; `budget_bytes` is what the job had, if it was told. Averages are over all steps that the job's
// clock saw, the first ones included; traffic is all of the job's, by those steps.
//
// {"policy", "budget_bytes", "predicted_step_seconds", "predicted_moved_bytes", and where steps were seen
// "steps", "step_seconds", "step_error" (measured by predicted, less 1), "moved_bytes"}
nlohmann::json outcome_json(const PlanPoint& point, const nlohmann::json& counters);
// One or two lines of a summary, each ended.
std::string outcome_text(const PlanPoint& point, const std::optional<std::uint64_t>& budget_bytes,
                         const nlohmann::json& counters);

}  // namespace terrace::cli
