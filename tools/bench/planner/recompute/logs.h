// DTR's authors' logs that the reference names, as steps of recomputation, and what it says of each.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/planner/recompute/step.h"
#include "tools/bench/planner/parts.h"

namespace terrace::bench {

struct SimrdLog {
  std::string model;
  planner::recompute::Step step;
  std::vector<Json> points;  // of simrd: heuristic, budget, outcome
  double peak = 1;           // ours over the log's

  bool peaks_agree() const;  // within 0.1%
  // Budgets in bytes by their ratio to simrd's peak, the largest first.
  std::map<double, std::uint64_t, std::greater<>> budgets() const;
  // Null: simrd was not asked.
  const Json* point(std::string_view our_heuristic, double ratio) const;
};

// In the order of the reference's names; those whose log is missing or cannot be recomputed are left out.
std::vector<SimrdLog> simrd_logs(const PlannerOptions& options, const std::string& reference);

// Instead of its sections where the reference is missing.
inline constexpr const char* simrd_reference_file = "dtr/simrd_reference.json";

}  // namespace terrace::bench
