// What a policy for recomputation answers, and the one judge that says what it is worth.
//
// A schedule is a list of moves: compute an operation, or free a storage. It says nothing about its cost: no
// policy prices itself. check_schedule() replays the list and knows nothing of how it came about.
//
// Rules of the replay. Constants lie in memory always. An operation needs all that it reads in memory and
// room for its results and its workspace on top, also for results that are there already: it makes all of
// them anew, and the doubles go at once (simrd's rule for siblings: simrd/runtime/v2.py). Each operation runs
// at least once, those that are not repeatable no more than that; what is kept is there at the end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/planner/recompute/step.h"

namespace terrace::planner::recompute {

struct Move {
  enum class Kind : std::uint8_t { compute, free };
  Kind kind = Kind::compute;
  std::uint32_t index = 0;  // of an operation, or of a storage
};

using Schedule = std::vector<Move>;

struct Price {
  std::string wrong;  // the first move that breaks a rule, and how; empty: valid, and the rest has meaning
  std::int64_t cost_ns = 0;
  std::uint64_t peak_bytes = 0;
  std::uint32_t recomputations = 0;  // runs beyond the first of each operation
};

// Linear in the moves and what their operations name.
Price check_schedule(const Step& step, const Schedule& schedule, std::uint64_t budget_bytes);

}  // namespace terrace::planner::recompute
