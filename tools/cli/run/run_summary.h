// What a run was like, told at its end: for people on standard error, for programs as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tools/cli/cgroup/cgroup.h"
#include "tools/cli/run/run_plan.h"
#include "tools/cli/run/supervise.h"

namespace terrace::cli {

struct RunReport {
  RunPlan plan;
  Outcome outcome;
  // Of the job's cgroup; absent where there was none.
  std::optional<std::uint64_t> peak_bytes, limit_hits, oom_kills;
  nlohmann::json counters;   // the daemon's totals of this job (segment.h names them); null when unknown
  std::string counters_why;  // why they are unknown
  nlohmann::json offload;    // sum_offload_lines(); null when nothing is known
  bool pool_in_memory = false;
};

void read_cgroup(const JobCgroup& cgroup, RunReport* report);

// {"format": "terrace-run-summary", "version": 1, …}: bytes and seconds, unknown values absent.
nlohmann::json summary_json(const RunReport& report);
std::string summary_text(const RunReport& report);

}  // namespace terrace::cli
