// When one process computed, and which memory it was seen to touch. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/cli/timeline/history.h"

namespace terrace::cli {

// Stands while a thread of the process waits for memory: an interval of it is what computing took. Where
// other threads compute meanwhile it goes slow.
class ComputeClock {
 public:
  ComputeClock(const History& history, std::uint64_t session);

  std::uint64_t at(std::uint64_t time_ns) const;  // nanoseconds; never more than `time_ns`

 private:
  struct Wait {
    std::uint64_t from_ns = 0, to_ns = 0;
    std::uint64_t before_ns = 0;  // waited, until then
  };
  std::vector<Wait> waits_;  // apart from each other, in order
};

// A thread touched a run that was not there, or that was fresh; or a run came back before it was touched,
// which counts as its touch since no later one leaves an event.
struct Touch {
  std::uint64_t time_ns = 0;
  std::uint64_t run = 0;  // address
  std::uint32_t object = no_object;
  bool is_again = false;  // the run has not left since its last one
};

// Of one process, in the order of the recording.
std::vector<Touch> touches_of(const Recording& recording, const History& history, std::uint64_t session);

}  // namespace terrace::cli
