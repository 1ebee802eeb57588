// Two memories whose figures are easy to reckon with, and random plans for them.
#pragma once

#include "daemon/planner/memories/simulate.h"
#include "tests/planner/simulate/random_plans.h"

namespace terrace::planner::test {

// Per byte 1 µs to read and 1 to write in the fast memory, 4 and 10 in the slow one; moves of 0.25 bytes/µs
// in and 0.1 out. No latency.
Machine two_memories(std::uint64_t fast_bytes);

memories::Step on_two(const wire::Trace& trace, std::uint64_t fast_bytes);

// Births and moves anywhere.
memories::Plan random_plan(Random& random, const memories::Step& step, std::uint32_t entries);

}  // namespace terrace::planner::test
