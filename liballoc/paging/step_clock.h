// The program's steps as the agent sees them: the event clock (lifetimes/event_clock.h) reads what blocks
// come and go, and here each period that it finds is counted and timed, and told to the daemon.
//
// It runs while the pager is told of blocks, which is while memory is short. What is read late is late here,
// too: notes are read at each fault and each round of the agent's. Belongs to who holds the gate.
#pragma once

#include <cstddef>
#include <cstdint>

#include "liballoc/lifetimes/event_clock.h"
#include "liballoc/paging/accounts.h"
#include "liballoc/paging/block_queue.h"

namespace terrace::liballoc {

// Is told of every event with its place in the period, and of what follows from it.
class StepListener {
 public:
  virtual void on_step_event(const BlockEvent& event, std::uint32_t granules, const StepPlace& place) = 0;

 protected:
  constexpr StepListener() = default;
  ~StepListener() = default;
};

class StepClock {
 public:
  static constexpr std::size_t most_listeners = 2;

  constexpr explicit StepClock(Accounts& accounts) : accounts_(accounts) {}
  // It outlives the clock. Before begin(); in this order they are told.
  void tell(StepListener& listener) { listeners_[count_++] = &listener; }

  // Begins to listen; ids of blocks are smaller than `most_blocks`. Without memory for it no step is ever
  // found.
  void begin(std::uint32_t most_blocks);
  // A block came, went, or grew to so many granules.
  void on_block(const BlockEvent& event, std::uint32_t granules);
  // The program said where it is.
  void on_mark(const BlockEvent& event);

 private:
  void tell_all(const BlockEvent& event, std::uint32_t granules, const StepPlace& place);
  void period_began(const StepPlace& place);

  Accounts& accounts_;
  EventClock clock_;
  StepListener* listeners_[most_listeners] = {};
  std::size_t count_ = 0;
  bool listens_ = false;
  bool is_timed_ = false;  // the period that runs, from its beginning on
  std::uint64_t began_ns_ = 0;
  std::uint64_t stall_ns_ = 0;  // of all, by then
};

}  // namespace terrace::liballoc
