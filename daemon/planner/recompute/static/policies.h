// Plans for recomputation that are made before the step runs.
//
// A policy answers a schedule, or why it has none. It does not price it, and need not keep to the budget:
// check_schedule() says what it costs and whether it fits. Memory and time are in bytes and nanoseconds.
// Pure and deterministic.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "daemon/planner/recompute/schedule.h"
#include "liballoc/wire/result.h"

namespace terrace::planner::recompute {

// Everything stays until its last reader.
Schedule keep_all(const Step& step);

// Chen et al., "Training Deep Nets with Sublinear Memory Cost" (arXiv 1604.06174, section 4): the forward
// pass is cut into about sqrt(n) segments of as many operations. What one segment hands to a later one stays,
// the rest of it goes after its last reader in the forward pass and is made again, once, when the backward
// pass first needs some of it. The last segment stays. The budget plays no part. Refused without a backward
// pass, and for more than 10,000 operations.
Result<Schedule> chen_sqrt(const Step& step);

// The same (algorithm 3): a segment ends when its results have more than some number of bytes. Tries 40 such
// numbers, checks each plan, and answers the cheapest that fits. Refused if none does.
Result<Schedule> chen_greedy(const Step& step, std::uint64_t budget_bytes);

// The best persistent schedule of a chain, by dynamic programming: chain_programme.cpp. Sizes are rounded up
// to budget / slots. Refused where the step is no chain (chain.h), or none fits.
Result<Schedule> chain_programme(const Step& step, std::uint64_t budget_bytes, std::uint32_t slots = 500);

using Stop = std::function<bool()>;  // true ends the planning; empty: never

// Checkmate's linear relaxation, rounded: checkmate.cpp. Refused for more operations than 200, which is where
// its n^2 columns become too many, if no rounding fits, or if stopped, which is asked at each iteration of
// the solver.
Result<Schedule> checkmate_rounded(const Step& step, std::uint64_t budget_bytes, const Stop& stop = {});

// Only Checkmate's takes long enough to be stopped; the others do not ask.
struct StaticPolicy {
  std::string_view name;
  Result<Schedule> (*plan)(const Step&, std::uint64_t budget_bytes, const Stop& stop);
};
const std::vector<StaticPolicy>& direct_policies();  // without Checkmate's, which needs a solver
StaticPolicy relaxation_policy();                    // Checkmate's
const std::vector<StaticPolicy>& static_policies();  // all of them

}  // namespace terrace::planner::recompute
