#include "daemon/planner/reuse/search/section_check.h"

#include <algorithm>

namespace terrace::planner::search {

SectionCheck::SectionCheck(std::int32_t sections, std::int64_t capacity)
    : capacity_(capacity), heights_(static_cast<std::size_t>(sections)) {}

bool SectionCheck::fits(const Bounds& bounds, std::span<const Rank> left, SectionRange range,
                        Activity& activity, Bounds::Word* why) {
  std::int64_t* const heights = heights_.data();
  std::fill(heights + range.first, heights + range.last + 1, 0);
  for (const Rank r : left) {
    const Cell& cell = bounds[r];
    const std::int32_t end = std::min(cell.last, range.last);
    for (std::int32_t s = std::max(cell.first, range.first); s <= end; ++s)
      heights[s] = std::max(heights[s], cell.low) + cell.bytes;
  }
  const auto* const over = std::find_if(heights + range.first, heights + range.last + 1,
                                        [&](std::int64_t height) { return height > capacity_; });
  if (over == heights + range.last + 1) return true;
  explain(bounds, left, static_cast<std::int32_t>(over - heights), activity, why);
  return false;
}

// Only what lies above the last gap counts: those buffers do not fit between its upper edge and the capacity.
void SectionCheck::explain(const Bounds& bounds, std::span<const Rank> left, std::int32_t section,
                           Activity& activity, Bounds::Word* why) {
  std::int64_t height = 0;
  culprits_.clear();
  for (const Rank r : left) {
    const Cell& cell = bounds[r];
    if (cell.first > section || cell.last < section) continue;
    if (cell.low > height) culprits_.clear();
    culprits_.push_back(r);
    height = std::max(height, cell.low) + cell.bytes;
  }
  std::fill_n(why, bounds.words(), Bounds::Word{0});
  for (const Rank r : culprits_) {
    activity.raise(bounds[r].item);
    for (std::size_t w = 0; w < bounds.words(); ++w) why[w] |= bounds.low_why(r)[w];
  }
  activity.next_failure();
}

}  // namespace terrace::planner::search
