// The program's steps as the agent sees them: the event clock (lifetimes/event_clock.h) reads what blocks
// come and go, and here each period that it finds is counted and timed, and told to the daemon.
//
// It runs while the pager is told of blocks, which is while memory is short. What is read late is late here,
// too: notes are read at each fault and each round of the agent's. Belongs to who holds the gate.
#pragma once

#include <cstdint>

#include "liballoc/lifetimes/event_clock.h"
#include "liballoc/paging/accounts.h"
#include "liballoc/paging/block_queue.h"

namespace terrace::liballoc {

class StepClock {
 public:
  constexpr explicit StepClock(Accounts& accounts) : accounts_(accounts) {}

  // Begins to listen; ids of blocks are smaller than `most_blocks`. Without memory for it no step is ever
  // found.
  void begin(std::uint32_t most_blocks);
  // A block came, went, or grew to so many granules.
  void on_block(const BlockEvent& event, std::uint32_t granules);

 private:
  void period_began(const StepPlace& place);

  Accounts& accounts_;
  EventClock clock_;
  bool listens_ = false;
  bool is_timed_ = false;  // the period that runs, from its beginning on
  std::uint64_t began_ns_ = 0;
  std::uint64_t stall_ns_ = 0;  // of all, by then
};

}  // namespace terrace::liballoc
