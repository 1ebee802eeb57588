// The first path of the search, without a capacity: a valid placement at once, for any size of instance.
//
// Always the buffer that can lie lowest is placed next, the first in the order among equals. A segment tree
// over the sections holds the skyline, the tops of what has been placed; a queue holds the buffers by a lower
// bound of their place, refreshed when one comes to the front (tops only rise). O(log n) per look.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "daemon/planner/reuse/search/problem.h"

namespace terrace::planner::search {

// Offsets per item of the problem. `order`: indices of its items.
std::vector<std::int64_t> skyline_offsets(const Problem& problem, std::span<const std::uint32_t> order);

}  // namespace terrace::planner::search
