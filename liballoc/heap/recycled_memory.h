// Memory that was freed and is kept for the next block, as long as no pager is at work: how much is kept, and
// how the rest goes back to the kernel. Once the pager is at work it trims (Pager::trim).
#pragma once

#include <cstdint>

#include "liballoc/heap/blocks.h"

namespace terrace::liballoc {

class RecycledMemory {
 public:
  constexpr explicit RecycledMemory(Blocks& blocks) : blocks_(blocks) {}

  // Under the heap's lock: a block was handed out.
  void note_need();
  // Under the heap's lock: whether decay() may have something to do.
  bool may_decay() const;
  // On the way through free(), without the lock.
  void decay();
  // Gives back all. Bytes given back. Any thread without the lock.
  std::size_t trim();

 private:
  bool give_back(std::uint32_t most_granules);

  Blocks& blocks_;
  // Under the heap's lock.
  std::uint64_t window_start_ns_ = 0;
  std::uint32_t window_peak_[2] = {};  // most live granules in this window and in the last
};

}  // namespace terrace::liballoc
