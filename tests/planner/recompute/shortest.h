// The cheapest of all schedules of a small step, by search over every set of storages that can lie in memory.
#pragma once

#include <cstdint>
#include <optional>

#include "daemon/planner/recompute/step.h"

namespace terrace::planner::test {

// For steps without constants in which the last result needs all operations, with at most 16 storages;
// nothing if no schedule fits.
std::optional<std::int64_t> least_cost_ns(const recompute::Step& step, std::uint64_t budget_bytes);

}  // namespace terrace::planner::test
