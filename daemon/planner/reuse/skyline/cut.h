// An instance cut into what must be decided, and what need not be.
//
// Three reductions that lose nothing: an empty buffer takes offset 0; where no buffer crosses a point of
// time, the two sides are independent; in each side a buffer that is alive all the time may as well lie at
// the bottom, and without it the rest may fall apart again. (A trace's weights go this way: 750 of the 2,800
// buffers of a training step of Inception, for example.) Time is renumbered to sections, the distinct begins,
// because the set of live buffers can only be largest just after a begin. Sizes are rounded up to the
// alignment that all buffers share: what lies in between can serve no other buffer.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/planner/reuse/instance.h"
#include "daemon/planner/reuse/skyline/part.h"

namespace terrace::planner::skyline {

struct Parts {
  std::vector<Part> parts;
  std::vector<std::uint64_t> offsets;  // by buffer: settled for all that are in no part
  std::uint64_t settled_bytes = 0;     // the highest end among those
  std::uint64_t bound_bytes = 0;       // of the whole
};

// O(n log n). Of an instance whose live bytes never exceed max_instance_bytes.
Parts cut(const Instance& instance);

// Where the lowest block of the part may lie. Above a floor all blocks have one alignment.
std::uint64_t first_offset(const Part& part);

}  // namespace terrace::planner::skyline
