// The pager behind its gate, as the heap's parts and a thread of the program reach it.
//
// The gate (paging/gate.h) covers what backs blocks: the agent holds the gate while it works, and so does a
// thread of the program that asks for something rare. Inside the gate nobody waits for the heap's lock
// (blocks.h): its holder may have been interrupted by a signal, whose handler waits for memory that only the
// agent brings back.
#pragma once

#include <cstdint>

#include "liballoc/base/options.h"
#include "liballoc/base/signal_guard.h"
#include "liballoc/paging/gate.h"
#include "liballoc/paging/pager.h"

namespace terrace::liballoc {

struct GuardedPager {
  Pager& pager;  // to be changed with the gate only
  Gate& gate;
  const Options& options;  // constant once the heap is up
};

// A thread of the program in the agent's place: the gate, with all notes read and the signals put off.
class InsideGate {
 public:
  explicit InsideGate(const GuardedPager& guarded)
      : guarded_(guarded), before_(guarded.options.may_page() ? SignalBlock::begin() : 0) {
    guarded_.gate.enter();
    guarded_.pager.follow_blocks();
  }
  ~InsideGate() {
    guarded_.gate.leave();
    if (guarded_.options.may_page()) SignalBlock::end(before_);
  }
  InsideGate(const InsideGate&) = delete;
  InsideGate& operator=(const InsideGate&) = delete;

 private:
  const GuardedPager& guarded_;
  std::uint64_t before_;
};

}  // namespace terrace::liballoc
