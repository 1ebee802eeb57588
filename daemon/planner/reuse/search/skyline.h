// The first path of the search, without a capacity: a valid placement at once, for any size of instance.
//
// The skyline is the tops of what has been placed, a row of flat segments over the sections. The lowest
// segment is looked at: of the buffers that fit into it sideways, the first in the order is placed there. If
// none fits, the segment rises to its lower neighbour and joins it: the gap is lost.
//
//        ┌──┐        ┌────       the segment b to c is lowest: a buffer that lives within b..c lies there,
//     ───┘  │   ┌────┘           or it rises to the height of its right neighbour
//           └───┘
//          b     c
//
// O(n log^2 n): a buffer is placed once, and a segment rises at most once for each that was made. Which
// buffer fits is asked of a tree over the buffers' first sections, whose nodes order theirs by last section
// and hold the first of the order in each prefix (contained.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "daemon/planner/reuse/search/problem.h"

namespace terrace::planner::search {

// Offsets per item of the problem. `order`: indices of its items.
std::vector<std::int64_t> skyline_offsets(const Problem& problem, std::span<const std::uint32_t> order);

}  // namespace terrace::planner::search
