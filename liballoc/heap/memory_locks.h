// What the program locked: mlock, munlock, mlockall and munlockall of the heap's memory.
//
// Any thread, without lock and gate. All return 0 or an errno value.
#pragma once

#include <cstddef>

#include "liballoc/agent/waiting/waker.h"
#include "liballoc/base/availability.h"
#include "liballoc/heap/blocks.h"
#include "liballoc/heap/guarded_pager.h"
#include "liballoc/heap/reserved_range.h"

namespace terrace::liballoc {

class MemoryLocks {
 public:
  constexpr MemoryLocks(const GuardedPager& guarded, Blocks& blocks, const ReservedRange& range,
                        const Availability& availability, Waker& waker)
      : guarded_(guarded), blocks_(blocks), range_(range), availability_(availability), waker_(waker) {}

  // After mlock() of pages of ours that are pinned now: they stay until munlock(). ENOMEM: that cannot be
  // noted.
  int note(const void* address, std::size_t bytes);
  // munlock() of a range of ours. 0 or the errno of the kernel's.
  int unlock(const void* address, std::size_t bytes);
  // mlockall and munlockall: errno values of the kernel's.
  int lock_everything(int flags);
  int unlock_everything();

 private:
  int stop_evicting(int flags, bool* was_evicting);

  const GuardedPager& guarded_;
  Blocks& blocks_;
  const ReservedRange& range_;
  const Availability& availability_;
  Waker& waker_;
};

}  // namespace terrace::liballoc
