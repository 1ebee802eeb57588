// What a plan predicts for a job's step, beside what was measured under it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace terrace::cli {

// Of a row of job_rows(): "plan    train: predicted 1.02 s, measured 1.05 s a step (g10, 240 moves)" and the
// line's end; empty where the job has no plan.
std::string plan_line(const nlohmann::json& row);

}  // namespace terrace::cli
