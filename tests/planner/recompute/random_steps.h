// Made-up steps for the tests of recomputation.
#pragma once

#include <cstdint>

#include "daemon/planner/recompute/step.h"

namespace terrace::planner::test {

// `operations` operations with one or two results each, the oldest that nobody has read among what they read;
// some make nothing. The same for the same seed.
recompute::Step random_step(std::uint64_t seed, std::uint32_t operations);

// Adds operations 0 -> 1 -> ... of cost 1 to an empty step: each makes one storage, which the next one reads.
void add_line(recompute::StepBuilder* builder, std::uint32_t operations, std::uint64_t bytes);

// a0 -> a1 -> ... and back, each backward operation reading its layer's input, its output and the gradient:
// 2 * layers + 1 operations of cost 1, each making one storage of 1 byte, the loss in the middle.
recompute::Step unit_chain(std::uint32_t layers);

}  // namespace terrace::planner::test
