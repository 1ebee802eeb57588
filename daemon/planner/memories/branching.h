// The least of a linear programme some of whose columns must be 0 or 1: branch and bound over its relaxation.
//
// Best first, by the relaxation's bound. At every node the caller makes a whole solution out of the relaxed
// one, by a rule of its own; the search ends when the best of them is within `gap` of what no other can be
// below, or after `most_nodes`. The bound is that of multipliers (linear.h): right whatever the solver does.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "daemon/planner/simulate/bound/linear.h"

namespace terrace::planner::memories {

struct BranchOptions {
  std::uint32_t most_nodes = 16;
  std::uint32_t most_iterations = 200'000;  // of the solver, per node
  double gap = 0.01;                        // as AutoTM's solver was run
};

struct Branched {
  double bound = 0;  // of every whole solution
  std::uint32_t nodes = 0;
};

// `round` gets a value for each column, keeps the best solution for itself, and answers that one's cost.
Branched branch(LinearProgramme programme, const std::vector<std::uint32_t>& whole,
                const std::function<double(const std::vector<double>&)>& round, const BranchOptions& options);

}  // namespace terrace::planner::memories
