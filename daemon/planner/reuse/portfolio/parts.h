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

namespace terrace::planner::portfolio {

struct Block {
  std::uint64_t bytes = 0;  // > 0; rounded up
  std::uint32_t lower = 0;  // in sections of its part; half-open
  std::uint32_t upper = 1;
  std::uint64_t alignment = 1;
  std::uint32_t buffer = 0;  // index into the instance
  std::uint32_t begin = 0;   // of its life, in the instance's time
  std::uint32_t end = 1;
  std::uint64_t tail = 0;  // what the rounding added: matters only for the block that ends highest

  std::uint64_t end_at(std::uint64_t offset) const { return offset + bytes - tail; }
};

// Blocks that must be placed together, at offsets of at least floor_bytes.
struct Part {
  std::vector<Block> blocks;  // by lower, then upper descending
  std::uint32_t sections = 0;
  std::uint64_t floor_bytes = 0;
  std::uint64_t most_tail = 0;    // of its blocks
  std::uint64_t bound_bytes = 0;  // floor + max live - most_tail: no placement of the part ends lower
};

struct Parts {
  std::vector<Part> parts;
  std::vector<std::uint64_t> offsets;  // by buffer: settled for all that are in no part
  std::uint64_t settled_bytes = 0;     // the highest end among those
  std::uint64_t bound_bytes = 0;       // of the whole
};

// O(n log n). Of an instance that refusal() lets pass.
Parts cut(const Instance& instance);

}  // namespace terrace::planner::portfolio
