// Greedy placement in a given order: the classic heuristics, {size, width, area, birth, breadth, conflicts}
// by {best fit, first fit}.
//
// They fill gaps, which the skyline does not, and lose to it nearly always; a portfolio carries them for the
// instances where they do not, and so as never to be worse than any of them. O(n) for each block: a walk over
// what is placed, in the order of offsets, past whatever does not live at the same time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "daemon/planner/reuse/skyline/cut.h"

namespace terrace::planner::portfolio {

using skyline::Block;
using skyline::Part;

enum class FitOrder : std::uint8_t { size, width, area, birth, breadth, conflicts };
inline constexpr std::uint32_t fit_orders = 6;

// Indices of the part's blocks. Equal ones stay in the instance's order. breadth: by the largest load during
// the block's life; conflicts: by how many blocks live at the same time. Then by size.
std::vector<std::uint32_t> order_of(const Part& part, FitOrder order);

struct FitLimits {
  std::uint64_t cutoff_bytes = ~std::uint64_t{0};  // give up when the highest end would not be below
  const std::function<bool()>* stop = nullptr;     // asked every 256 blocks; null or empty: never
};

struct Fit {
  std::optional<std::uint64_t> top_bytes;  // the highest end; nothing: given up
  std::vector<std::uint64_t> offsets;      // by block
  std::uint64_t walked = 0;                // placed blocks looked at: the work done
};

// `best`: the smallest gap that takes the block, the lowest of equal ones; else the lowest gap.
Fit fit_in_order(const Part& part, const std::vector<std::uint32_t>& order, bool best,
                 const FitLimits& limits);

}  // namespace terrace::planner::portfolio
