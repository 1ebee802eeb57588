// What the pager does at present: every part reads it, only Pager and Forking change it.
#pragma once

#include <cstdint>

namespace terrace::liballoc {

enum class PagerMode : std::uint8_t {
  plain,    // no pager
  dormant,  // a pager that need not do anything yet
  paging,   // evicts and restores
  restore,  // a forked child: brings back what the parent had evicted, evicts nothing
};

struct Standing {
  PagerMode mode = PagerMode::plain;
  bool is_locked = false;     // the program keeps all memory locked (mlockall)
  bool kernel_swaps = false;  // the kernel takes memory away instead (agent/kernel_swap.h)

  bool evicts() const { return !is_locked && !kernel_swaps; }

  bool is_paging() const { return mode == PagerMode::paging || mode == PagerMode::restore; }
};

}  // namespace terrace::liballoc
