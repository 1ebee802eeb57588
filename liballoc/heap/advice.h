// What the program says of its memory in advance (terrace_advise).
#pragma once

#include <cstddef>
#include <cstdint>

#include "liballoc/agent/take_over.h"
#include "liballoc/agent/waiting/waker.h"
#include "liballoc/heap/blocks.h"
#include "liballoc/heap/guarded_pager.h"
#include "liballoc/terrace.h"

namespace terrace::liballoc {

class Advice {
 public:
  constexpr Advice(const GuardedPager& guarded, Blocks& blocks, TakeOver& take_over, Waker& waker)
      : guarded_(guarded), blocks_(blocks), take_over_(take_over), waker_(waker) {}

  // 0; EINVAL: not inside one live block; ENOTSUP: there is no pager. Any thread, without lock and gate.
  int advise(const void* address, std::size_t bytes, terrace_advice advice);

 private:
  bool leave_whole_runs(Blocks::Runs* runs, const std::byte* begin, const std::byte* end) const;

  const GuardedPager& guarded_;
  Blocks& blocks_;
  TakeOver& take_over_;
  Waker& waker_;
};

}  // namespace terrace::liballoc
