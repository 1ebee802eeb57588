// For how long memory is above the line in a range of operations, while what moves away lowers it.
//
// Residency only falls, so each operation comes below the line once: O(log n) for a query and, spread over
// all, for a relief. Times are sums of what the caller gives; whole numbers below 2^53 stay exact.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/planner/load_tree.h"

namespace terrace::planner::g10 {

// Bytes that are away during [begin, end); what is beyond the number of operations wraps to the step's begin.
struct Relief {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::uint64_t bytes = 0;
};

class Pressure {
 public:
  // Bytes in memory and time by operation; more than `line_bytes` is pressure.
  Pressure(const std::vector<std::uint64_t>& resident_bytes, const std::vector<double>& time,
           std::uint64_t line_bytes);

  void relieve(const Relief& relief);
  std::uint32_t ops() const { return static_cast<std::uint32_t>(time_.size()); }
  bool above(std::uint32_t op) const { return above_[op]; }
  double time_above(std::uint32_t begin, std::uint32_t end) const { return sum(end) - sum(begin); }

 private:
  void add(std::uint32_t op, double time);
  double sum(std::uint32_t end) const;  // of operations before `end`
  void lower(std::uint32_t begin, std::uint32_t end, std::uint64_t bytes);

  std::vector<double> time_;
  std::vector<bool> above_;
  std::vector<double> sums_;  // a Fenwick tree of the times of operations above the line
  LoadTree room_;  // minus the bytes in memory; 2^62 less for operations that are not above the line any more
  std::uint64_t line_bytes_;
};

}  // namespace terrace::planner::g10
