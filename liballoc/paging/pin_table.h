// PinTable and locks: runs that stay in DRAM.
//
// Locks are the kernel's and do not nest: a page is locked or it is not, however often it was asked for, and
// munlock() ends that. PinTable are ours and are counted. So the locked pages of each run are kept as a set,
// and a run has one pin more while its set is not empty. Belongs to who holds the gate.
#pragma once

#include <cstddef>
#include <cstdint>

#include "liballoc/paging/memory/memory_budget.h"
#include "liballoc/paging/runs/block_table.h"
#include "liballoc/paging/runs/run_table.h"
#include "liballoc/paging/standing.h"

namespace terrace::liballoc {

class PinTable {
 public:
  constexpr PinTable(RunTable& runs, BlockTable& blocks, const MemoryBudget& budget, const Standing& standing)
      : runs_(runs), blocks_(blocks), budget_(budget), standing_(standing) {}

  // For `block`, whose pins go with it when it is freed, also where others share its runs. 0: for nobody.
  void pin(std::uint32_t first_run, std::uint32_t last_run, std::uint32_t block = 0);
  void unpin(std::uint32_t first_run, std::uint32_t last_run, std::uint32_t block = 0);
  // Whether enough of the budget would be left to page with, over all that is pinned already.
  bool can_pin(std::uint32_t first_run, std::uint32_t last_run) const;

  // The program locked or unlocked whole pages. ENOMEM: that cannot be noted. True: some were locked.
  int lock(const std::byte* begin, const std::byte* end);
  bool unlock(const std::byte* begin, const std::byte* end);
  void unlock_all(std::uint32_t top_granule);

  // Run n is free: its pins and locks go, and the marks that they left on the mapping, which the next block
  // must not find.
  void let_go(std::uint32_t n);
  // The same for a block that leaves run n to its neighbours, whose pins and pages stay as they are.
  void let_go_of_own(std::uint32_t block, std::uint32_t n);

 private:
  std::uint16_t* own_pins(std::uint32_t block, std::uint32_t n);
  void add_pin(std::uint32_t n);
  void remove_pins(std::uint32_t n, std::uint16_t count);
  bool make_lock_table();
  bool unlock_pages_of(std::uint32_t n, const std::byte* begin, const std::byte* end);
  void forget_locks(std::uint32_t n);

  RunTable& runs_;
  BlockTable& blocks_;
  const MemoryBudget& budget_;
  const Standing& standing_;
  PageSet* locked_pages_ = nullptr;  // by run; none before the first lock
  std::uint32_t pinned_runs_ = 0;
};

}  // namespace terrace::liballoc
