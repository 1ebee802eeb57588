// What the judge of memory saw lie in tier 0, from when to when, beside what the report tells of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/planner/simulate/simulator.h"

namespace terrace::planner {

class SeenStays {
 public:
  explicit SeenStays(std::size_t tensors) : since_(tensors * 2) {}

  // Memory of a tensor or of its coded form, or with Stay::of_a_run all that a run alone uses. A time before
  // the step's begin counts as its begin.
  void comes(std::uint32_t tensor, bool coded, std::uint64_t bytes, double time_us);
  void goes(std::uint32_t tensor, bool coded, double time_us);

  // What is wrong with the report's stays, empty if nothing: none may be missing or more than was seen, but
  // those of no length; and their changes must be numbered as their times go. O(n log n).
  std::string check(const wire::Trace& trace, const SimulationReport& report);

 private:
  struct Since {
    std::uint64_t bytes = 0;  // 0: not there
    double time_us = 0;
  };

  std::vector<Since> since_;  // per tensor, then per coded form
  Since of_run_;
  std::vector<Stay> seen_;

  Since& at(std::uint32_t tensor, bool coded);
};

}  // namespace terrace::planner
