// The first path of the search, without a capacity: a valid placement at once, for any size of instance.
//
// The pass of the skyline (skyline/pass.h): in the lowest gap lies the first in the order of those that live
// within it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "daemon/planner/reuse/search/problem.h"

namespace terrace::planner::search {

// Offsets per item of the problem. `order`: indices of its items, each once, of fewer than 2^24. O(n log n).
std::vector<std::int64_t> first_path(const Problem& problem, std::span<const std::uint32_t> order);

}  // namespace terrace::planner::search
