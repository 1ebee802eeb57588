// What the parts of the server know of its loop, and may ask of it: one time for everything that an event
// sets off, a tick ahead of time, the end. One thread, the loop's.
//
// The loop goes in rounds: it waits, handles what happened, and ticks when a tick is due.
#pragma once

#include <algorithm>
#include <cstdint>

#include "daemon/base/clock.h"

namespace terrace::daemon {

class Loop {
 public:
  // By CLOCK_MONOTONIC, as of the last look at the clock.
  std::uint64_t now_ns() const { return now_ns_; }
  void look_at_clock() { now_ns_ = clock_ns(); }

  // The loop ticks by then, or earlier.
  void tick_by(std::uint64_t at_ns) { next_tick_ns_ = std::min(next_tick_ns_, at_ns); }
  bool is_tick_due() const { return now_ns_ >= next_tick_ns_; }
  std::uint64_t next_tick_ns() const { return next_tick_ns_; }
  // Of the tick that has begun, which may ask for another time itself.
  void tick_again_in(std::uint64_t pause_ns) { next_tick_ns_ = now_ns_ + pause_ns; }

  // The round that has begun is the last one.
  void end() { is_ending_ = true; }
  bool is_ending() const { return is_ending_; }

 private:
  std::uint64_t now_ns_ = clock_ns();
  std::uint64_t next_tick_ns_ = 0;
  bool is_ending_ = false;
};

}  // namespace terrace::daemon
