// The kernel's turn: nothing leaves by us, and the kernel takes what memory it needs to keep a limit, from
// the heap too (agent/kernel_swap.h says when). What was leaving is put back; what lies on the tier comes as
// a whole run when it is touched, and nothing is learned from how. With the gate.
#pragma once

#include <cstdint>

#include "liballoc/paging/accounts.h"
#include "liballoc/paging/memory/memory_budget.h"
#include "liballoc/paging/memory/placement.h"
#include "liballoc/paging/standing.h"

namespace terrace::liballoc {

class KernelTurn {
 public:
  struct Parts {
    Standing& standing;
    MemoryBudget& budget;
    Placement& placement;
    Accounts& accounts;
  };
  constexpr explicit KernelTurn(const Parts& parts) : parts_(parts) {}

  void begin() {
    parts_.standing.kernel_swaps = true;
    parts_.budget.leave_to_kernel(true);
    parts_.placement.put_all_back();
  }
  // The budget holds again, and what is over it leaves.
  void end() {
    parts_.standing.kernel_swaps = false;
    parts_.budget.leave_to_kernel(false);
  }
  bool is_on() const { return parts_.standing.kernel_swaps; }

  // It has lasted so much longer.
  void count(std::uint64_t ns) { parts_.accounts.counts.kernel_swap_ns += ns; }
  // So much of what we hold is swapped now; some of it still is when the turn has ended.
  void note_swapped(std::uint64_t bytes) { parts_.budget.note_swapped(bytes); }

 private:
  Parts parts_;
};

}  // namespace terrace::liballoc
