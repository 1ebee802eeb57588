// What the daemon knows, as metrics: of itself, of each tier, of jobs and of users. docs/metrics.md has the
// table.
//
// Jobs and users have the labels job_name and uid; those that Tallies do not tell apart are one series with
// the value "other" of uid, which is no user's. The label is not called "job", since Prometheus calls its own
// that. Pure, but for the file systems of tiers, which are asked how much is free.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/sessions/registry.h"

namespace terrace::daemon {

struct MetricsContext {
  const Registry& registry;
  std::uint64_t start_time_ns = 0;  // of the daemon; CLOCK_REALTIME
  std::uint64_t lowered_bytes = 0;  // of the budget, while the machine is short of memory
  std::uint64_t renders = 0;        // of this text so far
  std::uint64_t render_ns = 0;      // and the time they took
};

// At most some kilobytes for each job and user that is told apart.
std::string metrics_text(const MetricsContext& context);

}  // namespace terrace::daemon
