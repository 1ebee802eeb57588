// What must stay in DRAM because a device, or the kernel for one, may use it behind the program's back.
//
// Any thread, without lock and gate. All return 0 or an errno value; EINVAL: the range is not inside one live
// block.
#pragma once

#include <cstddef>
#include <cstdint>

#include "liballoc/heap/blocks.h"
#include "liballoc/heap/guarded_pager.h"

namespace terrace::liballoc {

class Pins {
 public:
  constexpr Pins(const GuardedPager& guarded, Blocks& blocks) : guarded_(guarded), blocks_(blocks) {}

  // Brings the range's runs into DRAM. Pages of theirs that were never touched stay holes.
  // ENOMEM: what is pinned would leave too little of the budget.
  int pin(const void* address, std::size_t bytes);
  int unpin(const void* address, std::size_t bytes);
  // The kernel is about to keep references to these pages that it does not show (a pipe's after vmsplice, a
  // socket's until it has sent): they stay where they are until the block is freed, and are not used again
  // then.
  int lend(const void* address, std::size_t bytes);

 private:
  KnownBlock hold_block(std::uint32_t id);
  PageSet pages_away(std::uint32_t run);
  void bring(std::uint32_t run);

  const GuardedPager& guarded_;
  Blocks& blocks_;
};

}  // namespace terrace::liballoc
