// Whether what is left can still fit above the bounds, section by section.
//
// Within a section the buffers left lie one above the other, each at its bound `low` or higher. Stacked in
// the order of their bounds they reach the least height that any order reaches (the earliest-start schedule
// of one machine): if that is above the capacity, the state is hopeless. It dominates MiniMalloc's test, the
// floor plus the sum of what is left: a gap in the middle counts, too.
//
//      low of c ┈┈┈┈┈┈┈ ┌───┐   c must begin here: the gap under it is lost in this section
//                       │ c │
//   low of a, b ┈ ┌───┐ └───┘   height = max(low a, top) + a + b, then max(that, low c) + c
//                 │a,b│
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "daemon/planner/reuse/search/activity.h"
#include "daemon/planner/reuse/search/bounds.h"

namespace terrace::planner::search {

struct SectionRange {
  std::int32_t first;
  std::int32_t last;  // inclusive
};

class SectionCheck {
 public:
  SectionCheck(std::int32_t sections, std::int64_t capacity);

  // `left`: ranks in the order of (low, rank). Looks at sections in the range only. If false, `why` (if not
  // null) holds the union of the reasons of the section that overflows, and `activity` knows its buffers.
  bool fits(const Bounds& bounds, std::span<const Rank> left, SectionRange range, Activity& activity,
            Bounds::Word* why);

 private:
  void explain(const Bounds& bounds, std::span<const Rank> left, std::int32_t section, Activity& activity,
               Bounds::Word* why);

  std::int64_t capacity_;
  std::vector<std::int64_t> heights_;
  std::vector<Rank> culprits_;
};

}  // namespace terrace::planner::search
