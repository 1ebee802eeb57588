// What the agent waits for: kicks, faults, transfers, the daemon, and the end of forked children. The
// agent's.
#pragma once

#include <cstddef>

#include "liballoc/agent/waiting/waker.h"
#include "liballoc/paging/pager.h"
#include "liballoc/paging/transfers/fork_ledger.h"

namespace terrace::liballoc {

class WaitSet {
 public:
  // Descriptors to poll for reading; -1: there is none.
  struct Sources {
    int userfault;
    int tier;
    int daemon;
  };

  constexpr WaitSet(Waker& waker, Pager& pager) : waker_(waker), pager_(pager) {}

  // Without the gate.
  void wait(const Sources& sources, int timeout_ms);
  // With the gate: what only children that have ended could still read is given back.
  void reap_children();
  void forget_children() { gone_count_ = 0; }

 private:
  Waker& waker_;
  Pager& pager_;
  std::size_t gone_count_ = 0;  // as of the last wait()
  int gone_[ForkLedger::most_children] = {};
};

}  // namespace terrace::liballoc
