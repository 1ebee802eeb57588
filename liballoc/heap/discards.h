// The program drops the content of memory of ours: what was evicted of it comes back as zeroes.
#pragma once

#include <cstddef>

#include "liballoc/agent/waiting/waker.h"
#include "liballoc/heap/guarded_pager.h"
#include "liballoc/heap/reserved_range.h"

namespace terrace::liballoc {

class Discards {
 public:
  constexpr Discards(const GuardedPager& guarded, const ReservedRange& range, Waker& waker)
      : guarded_(guarded), range_(range), waker_(waker) {}

  // MADV_DONTNEED and its like, and munmap, of a range of ours. 0 or the errno of the kernel's madvise,
  // EINVAL for MADV_REMOVE and for an address inside a page; what was evicted is forgotten only where the
  // kernel dropped what was not. Any thread, without lock and gate.
  int discard(void* address, std::size_t bytes, int advice);

 private:
  int discard_step(std::byte* begin, std::byte* end, int advice);

  const GuardedPager& guarded_;
  const ReservedRange& range_;
  Waker& waker_;
};

}  // namespace terrace::liballoc
