#include "daemon/planner/reuse/frameworks/common.h"

#include <algorithm>

namespace terrace::planner::frameworks {

Sizes aligned_sizes(const Instance& instance) {
  Sizes sizes;
  for (const Buffer& b : instance.buffers) sizes.alignment = std::max(sizes.alignment, b.alignment);
  for (const Buffer& b : instance.buffers) sizes.bytes.push_back(align_up(b.bytes, sizes.alignment));
  return sizes;
}

void Placed::insert_before_equals(const Range& range) {
  const auto at = std::lower_bound(ranges_.begin(), ranges_.end(), range,
                                   [](const Range& a, const Range& b) { return a.begin < b.begin; });
  ranges_.insert(at, range);
}

void Placed::insert_after_equals(const Range& range) {
  const auto at = std::upper_bound(ranges_.begin(), ranges_.end(), range,
                                   [](const Range& a, const Range& b) { return a.begin < b.begin; });
  ranges_.insert(at, range);
}

}  // namespace terrace::planner::frameworks
