// What became of the last period that a session sent, for those who look.
#pragma once

#include <cstdint>
#include <string>

namespace terrace::daemon {

struct SessionPlan {
  std::string policy;   // asked for by the job or the daemon's; empty: nothing was planned yet
  std::string refusal;  // why the job has no plan; empty: it has one
  std::uint32_t phase = 0;
  std::uint64_t period_hash = 0;
  std::uint64_t budget_bytes = 0;  // that it was planned for
  std::uint32_t entries = 0;
  double predicted_step_seconds = 0;
  double on_demand_step_seconds = 0;  // predicted without a plan
  // The job's counters when it was sent: what came after was measured under it.
  std::uint64_t steps_before = 0, steps_ns_before = 0;

  bool is_there() const { return !policy.empty() && refusal.empty(); }
};

}  // namespace terrace::daemon
