// The pager takes over: memory has become short, and what the kernel backed by itself becomes known.
//
// First the heap's range is watched: from then on no page appears but through us. Only then is it known how
// far up there may be pages, as threads allocate and write all the time, and the kernel is asked which are
// there (page_scan.h). A page that is not there was never touched, so its first touch must read zeroes, as it
// would have. What the program discards is never touched again in the same sense.
#pragma once

#include <cstdint>

#include "liballoc/paging/memory/memory_budget.h"
#include "liballoc/paging/runs/run_table.h"

namespace terrace::liballoc {

class Adoption {
 public:
  constexpr Adoption(RunTable& runs, MemoryBudget& budget) : runs_(runs), budget_(budget) {}
  // Every run up to the top that has pages becomes resident. The range is watched, and no run has a state.
  void adopt_resident();

 private:
  void adopt_pages(std::uint32_t n, PageRange pages, bool is_huge);
  void adopt_run(std::uint32_t n);

  RunTable& runs_;
  MemoryBudget& budget_;
};

}  // namespace terrace::liballoc
