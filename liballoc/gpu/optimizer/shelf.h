// All parameters that keep equally many planes, in the order in which they were added (block.h).
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "liballoc/gpu/optimizer/block.h"
#include "liballoc/gpu/optimizer/block_memory.h"
#include "liballoc/gpu/optimizer/drive.h"

namespace terrace::liballoc::optimizer {

// A parameter's elements within one slice.
struct Part {
  Block* block = nullptr;
  std::uint32_t slice = 0;
  std::uint32_t offset = 0;  // in the slice's planes
  std::uint32_t elements = 0;
  std::uint64_t at = 0;   // the first one's place in the parameter
  std::size_t owner = 0;  // whatever the caller of parts_of() calls the parameter

  float* plane(std::byte* content, unsigned k) const {
    return reinterpret_cast<float*>(content + slice * block->slice_bytes() + k * plane_bytes) + offset;
  }
};

// Where new blocks go.
struct Room {
  BlockMemory* memory = nullptr;
  Drive* drive = nullptr;        // null: all go to DRAM
  bool lives_on_drive = false;   // all go to the drive
  std::uint64_t dram_bytes = 0;  // else so much goes to DRAM, and what the drive has no room for
};

class Shelf {
 public:
  explicit Shelf(unsigned planes) : planes_(planes) {}
  Shelf(const Shelf&) = delete;
  Shelf& operator=(const Shelf&) = delete;

  // Room for so many elements, all zero. 0 or errno, and nothing is taken then. `number` is the next block's,
  // and counted on. *first is where they begin.
  int add(std::uint64_t elements, const Room& room, std::uint64_t* number, std::uint64_t* first);
  // What add() would make for them.
  std::uint64_t blocks_for(std::uint64_t elements) const;
  std::uint64_t bytes_for(std::uint64_t elements) const;
  // Appends the parts of `elements` elements from `first` on, in the order of their slices.
  void append_parts(std::uint64_t first, std::uint64_t elements, std::size_t owner, std::vector<Part>* out);

  void append_blocks(std::vector<Block*>* out);

  unsigned planes() const { return planes_; }

 private:
  static int house(std::vector<Block>* blocks, const Room& room);

  const unsigned planes_;
  std::uint64_t elements_ = 0;
  std::deque<Block> blocks_;  // their addresses stay
};

}  // namespace terrace::liballoc::optimizer
