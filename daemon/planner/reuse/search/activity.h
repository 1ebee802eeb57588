// In which order buffers are tried, and what is learnt about it.
//
// A static order is a word of letters, each a key that sorts falling: W width of the life, A area, T largest
// section total (MiniMalloc's letters), Z size, and V, the activity: how often a buffer stood in a section
// that overflowed, older failures counting less. Restarting with what failed most placed first is what solves
// the hard instances: the idea is that of conflict-driven SAT solvers (VSIDS, Moskewicz et al., DAC'01).
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/planner/reuse/search/problem.h"

namespace terrace::planner::search {

class Activity {
 public:
  explicit Activity(std::size_t count) : values_(count) {}
  void raise(std::uint32_t item) { values_[item] += step_; }
  void next_failure();
  double operator[](std::uint32_t item) const { return values_[item]; }

 private:
  std::vector<double> values_;
  double step_ = 1;
};

// Indices of the problem's items in the order of `keys`; equal ones by index, or in an order that `seed`
// chooses if it is not 0.
std::vector<std::uint32_t> order_by(const Problem& problem, const char* keys, const Activity& activity,
                                    std::uint64_t seed);

}  // namespace terrace::planner::search
