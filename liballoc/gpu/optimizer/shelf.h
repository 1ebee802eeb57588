// All parameters that keep equally many planes, in the order in which they were added (block.h).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "liballoc/gpu/optimizer/block.h"
#include "liballoc/gpu/optimizer/drive.h"
#include "tiers/mapping.h"

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

class Shelf {
 public:
  explicit Shelf(unsigned planes) : planes_(planes) {}
  Shelf(const Shelf&) = delete;
  Shelf& operator=(const Shelf&) = delete;

  // Room for so many elements, all zero, in DRAM or, if `drive` is not null, there. 0 or errno, and nothing
  // is taken then. `number` is the next block's, and counted on. *first is where they begin.
  int add(std::uint64_t elements, Drive* drive, std::uint64_t* number, std::uint64_t* first);
  // Appends the parts of `elements` elements from `first` on, in the order of their slices.
  void append_parts(std::uint64_t first, std::uint64_t elements, std::size_t owner, std::vector<Part>* out);

  unsigned planes() const { return planes_; }
  std::uint64_t dram_bytes() const { return dram_bytes_; }

 private:
  int add_in_dram(std::vector<Block>* blocks);
  int add_on_drive(std::vector<Block>* blocks, Drive* drive);

  const unsigned planes_;
  std::uint64_t elements_ = 0;
  std::uint64_t dram_bytes_ = 0;
  std::deque<Block> blocks_;  // their addresses stay
  std::vector<std::unique_ptr<tiers::Mapping>> memory_;
};

}  // namespace terrace::liballoc::optimizer
