// Frames: memory that is not under its run's address, and where more of it comes from.
//
// The budget limits the pages in frames and in place together. So a frame is sought from the cheapest source
// to the dearest: one that is free; the memory of a recycled run, moved over without a copy; new memory,
// while the budget allows it; the frame of a run whose bytes are on the tier already. Belongs to who holds
// the gate.
#pragma once

#include <cstdint>

#include "liballoc/paging/accounts.h"
#include "liballoc/paging/memory/free_runs.h"
#include "liballoc/paging/memory/memory_budget.h"
#include "liballoc/paging/memory/staging.h"
#include "liballoc/paging/mover/mover.h"
#include "liballoc/paging/runs/run_table.h"
#include "liballoc/paging/standing.h"
#include "liballoc/paging/transfers/extents.h"

namespace terrace::liballoc {

class Frames {
 public:
  constexpr Frames(RunTable& runs, Staging& staging, MemoryBudget& budget, Extents& extents,
                   Accounts& accounts, const Standing& standing)
      : runs_(runs),
        staging_(staging),
        budget_(budget),
        extents_(extents),
        accounts_(accounts),
        standing_(standing) {}
  void use(FreeRuns* free_runs) { free_runs_ = free_runs; }
  // Reserves address space for so many. 0 or errno.
  int initialise(std::uint32_t frames, Mover* mover);

  std::byte* address(std::uint32_t frame) const { return staging_.address(frame); }
  // A frame with memory, from the cheapest source; `none`: everything is in use, and `may_reclaim` is false
  // or nothing can be reclaimed.
  std::uint32_t take(bool may_reclaim);
  // Sees to it that one is free, from what costs no transfer and nothing that was read ahead: memory for what
  // is kept compressed.
  void free_one();
  // Whether take(true) is likely to find one.
  bool can_take() const;
  // Of a frame whose content is nobody's any more.
  void release(std::uint32_t frame);
  // Those that are in use.
  std::uint32_t used() const { return used_; }
  // A frame without memory came into use, or one whose memory is elsewhere now went.
  void note_taken() { ++used_; }
  void note_gone() { --used_; }
  void start_anew() { used_ = 0; }

  // Gives up the frame of a run whose bytes are on the tier. Pages that came back meanwhile are in place.
  void reclaim(std::uint32_t n);
  // For pages that come singly. False: nothing more can go now. What is then over the budget for a moment is
  // shed when something can.
  bool make_room(std::uint32_t pages);
  // One step towards the budget. False: nothing to shed.
  bool shed();
  // Gives recycled memory back to the kernel, oldest first, until at most `keep` runs are left. Runs given
  // back.
  std::uint32_t trim(std::uint32_t keep);
  // False: a block lies on it again, which is not known here yet, or it must keep its memory.
  bool drop_recycled(std::uint32_t n);

 private:
  std::uint32_t create();
  std::uint32_t steal_recycled();
  bool empty_recycled(std::uint32_t n);
  bool can_reclaim() const;
  void reclaim_one();

  RunTable& runs_;
  Staging& staging_;
  MemoryBudget& budget_;
  Extents& extents_;
  Accounts& accounts_;
  const Standing& standing_;
  FreeRuns* free_runs_ = nullptr;
  Mover* mover_ = nullptr;
  std::uint32_t used_ = 0;
};

}  // namespace terrace::liballoc
