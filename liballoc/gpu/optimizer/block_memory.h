// The host memory of blocks: address ranges that they keep, and memory in those that are in DRAM.
//
// A block that leaves for the drive gives its pages back to the kernel and keeps its range, so that it comes
// back to where it was. Blocks of one call lie side by side from a multiple of a huge page on: several
// streams of memory are read and written at once, whose translations with pages of 4 KiB do not fit the
// processor's tables.
//
// One thread at a time, but for bytes(). Errors are errno values.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "liballoc/gpu/optimizer/block.h"
#include "tiers/mapping.h"

namespace terrace::liballoc::optimizer {

class BlockMemory {
 public:
  BlockMemory() = default;
  BlockMemory(const BlockMemory&) = delete;
  BlockMemory& operator=(const BlockMemory&) = delete;

  // Ranges for blocks of one size that have none; no memory yet. 0 or errno, and nothing is taken.
  int place(std::span<Block> blocks);
  // The block, which has a range, is in DRAM from now on, with what its range holds: zeros at first.
  void fill(Block& block);
  // It is in DRAM no longer.
  void empty(Block& block);
  // What its range holds, without being in DRAM, is of no use.
  static void forget(const Block& block);

  // Of blocks in DRAM. Any thread.
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::vector<std::unique_ptr<tiers::Mapping>> ranges_;
  std::atomic<std::uint64_t> bytes_ = 0;
};

}  // namespace terrace::liballoc::optimizer
