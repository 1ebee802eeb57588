#include "daemon/planner/simulate/gaps/eviction_walk.h"

#include "daemon/planner/simulate/store/victim_heap.h"

namespace terrace::planner {

EvictionWalk::EvictionWalk(const wire::Trace& trace, std::uint64_t limit_bytes, std::uint32_t lead,
                           const std::vector<Gap>& gone)
    : trace_(trace),
      limit_bytes_(limit_bytes),
      lead_(lead),
      resident_(resident_bytes(trace)),
      begin_(trace.ops.size()),
      end_(trace.ops.size()) {
  std::size_t next = 0;  // of those that are gone
  for (const Gap& gap : gaps_of(trace)) {
    if (next < gone.size() && gone[next].tensor == gap.tensor && gone[next].from == gap.from) {
      for (std::uint32_t op = gap.from + 1; op < gone[next].to; ++op)
        resident_[op] -= trace.tensors[gap.tensor].bytes;
      ++next;
      continue;
    }
    if (!gap.wraps && back(gap) <= gap.from + 1) continue;
    const auto number = static_cast<std::uint32_t>(gaps_.size());
    gaps_.push_back(gap);
    if (gap.from + 1 < begin_.size()) begin_[gap.from + 1].push_back(number);
    end_[back(gap)].push_back(number);
  }
}

std::vector<Leaving> EvictionWalk::run(const Rank& rank) const {
  std::vector<Leaving> leaving;
  std::vector<bool> taken(gaps_.size(), false), away(gaps_.size(), false);
  VictimHeap resting(gaps_.size());
  std::uint64_t away_bytes = 0;
  const auto leave = [&](std::uint32_t gap) {
    away[gap] = true;
    away_bytes += trace_.tensors[gaps_[gap].tensor].bytes;
  };
  for (std::uint32_t gap = 0; gap < gaps_.size(); ++gap) {
    if (gaps_[gap].wraps && back(gaps_[gap]) > 0) resting.put(gap, rank(gap, true));
  }
  for (std::uint32_t op = 0; op < resident_.size(); ++op) {
    for (const std::uint32_t gap : end_[op]) {
      resting.remove(gap);
      if (away[gap]) away_bytes -= trace_.tensors[gaps_[gap].tensor].bytes;
      away[gap] = false;
    }
    for (const std::uint32_t gap : begin_[op]) {
      if (taken[gap]) {
        leave(gap);
      } else {
        resting.put(gap, rank(gap, false));
      }
    }
    while (resident_[op] - away_bytes > limit_bytes_ && !resting.empty()) {
      const std::uint32_t gap = resting.top();
      resting.remove(gap);
      taken[gap] = true;
      leave(gap);
      leaving.push_back({gap, op});
    }
  }
  return leaving;
}

}  // namespace terrace::planner
