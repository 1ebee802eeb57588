// What the planners of the frameworks share: sizes rounded to one alignment, placed ranges in order of their
// offsets.
//
// Each of these frameworks knows one alignment for all buffers; here it is the largest that any buffer of the
// instance asks for. Empty buffers get offset 0 and take part in nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/planner/reuse/instance.h"

namespace terrace::planner::frameworks {

// A buffer's size and life as a planner sees them.
struct Sizes {
  std::uint64_t alignment = 1;
  std::vector<std::uint64_t> bytes;  // per buffer, rounded up to the alignment
};

Sizes aligned_sizes(const Instance& instance);

// Buffers that have their offsets, in order of them.
class Placed {
 public:
  struct Range {
    std::uint64_t begin;
    std::uint64_t end;
    std::uint32_t lower;
    std::uint32_t upper;
  };

  // After all with a smaller offset, and before or after those with an equal one.
  void insert_before_equals(const Range& range);
  void insert_after_equals(const Range& range);

  [[nodiscard]] const std::vector<Range>& ranges() const { return ranges_; }

 private:
  std::vector<Range> ranges_;
};

}  // namespace terrace::planner::frameworks
