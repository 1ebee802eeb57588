// The times in which a tensor lies idle: what G10's plan may use to move it away and back.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/planner/g10/workload.h"

namespace terrace::planner::g10 {

struct Interval {
  std::uint32_t tensor = 0;
  std::uint32_t start = 0;  // first operation without it
  std::uint32_t end = 0;    // the operation that needs it again
  bool looped = false;      // the end lies in the next iteration
  double time_us = 0;
  std::uint64_t bytes = 0;
};

// By tensor, then time. A weight's last interval reaches into the next iteration. `begin_us`: begin_times().
std::vector<Interval> idle_intervals(const Workload& workload, const std::vector<double>& begin_us);

// Sum of the execution times before each operation of two iterations and at their end, in microseconds.
std::vector<double> begin_times(const Workload& workload, const G10Machine& machine);

// The operation at which a tensor's pages have to be allocated so that they lie there at its birth.
std::uint32_t allocation_op(const Tensor& tensor, const std::vector<double>& begin_us,
                            const G10Machine& machine);

}  // namespace terrace::planner::g10
