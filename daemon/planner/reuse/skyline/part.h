// What is placed together: blocks of bytes over sections of time.
#pragma once

#include <cstdint>
#include <vector>

namespace terrace::planner::skyline {

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

}  // namespace terrace::planner::skyline
