// When and how the pager takes over from the kernel: once memory is short (high_water.h), or when a thread of
// the program asks for it. Until then the pager is dormant.
//
// The agent's, with the gate, but for ensure_paging().
#pragma once

#include <atomic>
#include <cstdint>

#include "liballoc/agent/high_water.h"
#include "liballoc/agent/waiting/waker.h"
#include "liballoc/base/availability.h"
#include "liballoc/heap/blocks.h"
#include "liballoc/heap/guarded_pager.h"
#include "liballoc/heap/huge_pages.h"
#include "liballoc/paging/mover/mover.h"

namespace terrace::liballoc {

class TakeOver {
 public:
  constexpr TakeOver(const GuardedPager& guarded, Blocks& blocks, HugePages& huge_pages, Waker& waker,
                     Mover& mover, Availability& availability)
      : guarded_(guarded),
        blocks_(blocks),
        huge_pages_(huge_pages),
        waker_(waker),
        mover_(mover),
        availability_(availability) {}

  // The pager has become dormant: begins to look how much memory there is.
  void prepare();
  // While the pager is dormant.
  void look();
  bool is_dormant() const { return guarded_.pager.standing().mode == Pager::Mode::dormant; }
  // While the pager is dormant: how long until the next look, and the most that the heap may hold now.
  std::uint64_t pause_ns() const { return high_water_.pause_ns(); }
  std::uint64_t held_estimate() { return high_water_.estimate(blocks_.spread_bytes()); }

  // Whether the pager is at work; a dormant one is woken first. Any thread, without lock and gate.
  bool ensure_paging();

  void reset_in_child();

 private:
  void begin_paging();
  void answer();

  const GuardedPager& guarded_;
  Blocks& blocks_;
  HugePages& huge_pages_;
  Waker& waker_;
  Mover& mover_;
  Availability& availability_;
  HighWater high_water_;
  std::atomic<std::uint32_t> wanted_{0};  // any thread: begin_paging() was asked for
};

}  // namespace terrace::liballoc
