// One phase that is being learned or was: its table, where it was left, and what was sent of it. Belongs to
// who holds the gate.
#pragma once

#include <cstdint>

#include "liballoc/lifetimes/period_table.h"

namespace terrace::liballoc {

struct LearnedPhase {
  PeriodTable table;
  std::uint64_t position = 0;   // number of the last one
  std::uint64_t last_used = 0;  // claims, ever
  std::uint32_t rounds = 1;     // in which each object is to be probed
  std::uint32_t rounds_at = 0;  // period in which that was said
  std::uint64_t fixed_pages =
      0;  // most memory beside the objects, of the last period in which that was counted
  std::uint64_t fixed_now = 0;  // of the one that runs

  // As the daemon knows it. hash 0: nothing was sent, or whom it was sent to is gone.
  struct Sent {
    std::uint64_t hash = 0;
    std::uint64_t changes = 0;
    std::uint32_t uses = 0;
    std::uint64_t budget_bytes = 0;
    std::uint64_t read_bytes_per_second = 0, write_bytes_per_second = 0;
  };
  Sent sent;
};

}  // namespace terrace::liballoc
