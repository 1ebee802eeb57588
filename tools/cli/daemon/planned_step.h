// What a daemon planned for the step of a job, and why the step is slow all the same. Pure.
//
// A daemon that plans says of each process "policy", and either "plan" or "plan_refusal", why there is none.
// A daemon of an older version says nothing of it, and then nothing is shown.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/cli/daemon/stall_causes.h"

namespace terrace::cli {

struct PlannedStep {
  std::string policy;
  std::string reason;                          // there is no plan, because of this
  std::uint64_t phase = 0;                     // the program's, that it is for
  std::uint64_t entries = 0;                   // what it moves in a step; 0: there is no plan
  double step_seconds = 0;                     // predicted; 0: not
  std::uint64_t budget_bytes = 0;              // that it was made for
  std::vector<std::uint64_t> tier_peak_bytes;  // predicted, DRAM first; empty: not told

  bool is_told() const { return !policy.empty() || !reason.empty() || entries != 0; }
  friend bool operator==(const PlannedStep&, const PlannedStep&) = default;
};

// Of one process in the daemon's answer, or of a row of job_columns(), which says what its largest process
// does. What is absent or no such thing counts as not told.
PlannedStep planned_step_of(const nlohmann::json& process);
// Of the processes of a job: the first that has a plan, else that has a reason or a policy.
PlannedStep planned_step_of_job(const nlohmann::json& processes);

// What waits could be shared among.
struct SlowStep {
  double late_seconds = 0;       // for what a plan brings, and had not brought yet
  double unplanned_seconds = 0;  // for what no plan brings
  double room_seconds = 0;       // for free memory, or on fresh memory
};
// By number, as events do not tell late ones from unplanned ones: a second's waits for data are divided as
// the counters planned_late and unplanned_faults of `rates` are. `complete`: no event was missed.
SlowStep slow_step(const nlohmann::json& rates, const StallCauses& causes, bool complete);

// A sentence for `top`: what was planned, and for what the step waits most. Empty where nothing is told.
// `rates` as in stall_causes.h.
std::string planned_text(const nlohmann::json& rates, const StallCauses& causes, bool complete);

// Of a row of job_rows(), what its plan predicts beside what was measured under it: "plan    train: predicted
// 1.02 s, measured 1.05 s a step (g10, 240 moves)" and the line's end; empty where the job has no plan.
std::string plan_line(const nlohmann::json& row);

}  // namespace terrace::cli
