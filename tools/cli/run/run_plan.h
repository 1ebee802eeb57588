// Everything about `terrace run` that is decided before anything is started: options checked against the
// machine and turned into the TERRACE_* variables of docs/environment.md. Pure but for looking at the pool
// directory, and reading the file that --plan names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "liballoc/wire/result.h"
#include "tools/cli/base/budget.h"
#include "tools/cli/base/options.h"
#include "tools/cli/base/pool_list.h"
#include "tools/cli/point/point.h"

namespace terrace::cli {

struct RunPlan {
  std::optional<std::uint64_t> dram_bytes;
  std::optional<std::uint64_t> limit_bytes;
  std::optional<std::uint64_t> pool_bytes;
  std::optional<std::uint64_t> writes_per_day;
  std::optional<PlanPoint> point;  // that it is to run at
  unsigned weight = 0;             // 0: none was asked for
  PoolList pool_directories;       // absolute; none: the default
  bool gpu = false;                // the GPU's allocation functions are preloaded too
  bool offload = false;            // the Python package is loaded into the job
  bool offloads_to_drive = false;
  std::string job;
  std::vector<std::pair<std::string, std::string>>
      environment;  // without what depends on a daemon or a cgroup
};

// `pid` makes the default name unique: processes of one name share one budget.
Result<RunPlan> plan_run(const RunOptions& options, const Ceiling& ceiling, int pid);

// Why a pool of plan.pool_bytes cannot be made in these directories; "" if it can.
std::string check_pool_room(const PoolList& directories, const RunPlan& plan);

// "<first>" before what a list separated by colons (LD_PRELOAD, PYTHONPATH) held; not twice at its head.
std::string before_list(const std::string& first, const char* existing);

}  // namespace terrace::cli
