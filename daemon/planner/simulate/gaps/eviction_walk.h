// Goes through a step once, operation by operation, and lets tensors leave where one has too little room.
//
//     operation   0    1    2    3    4    5         x  at work with tensor 0 or 1
//     tensor 0    x    .    .    .    .    x         .  rests: gap 0 → 5 may be taken while it lasts
//     tensor 1         x    .    .    x
//     over            -    ↑                         at 2 memory is short: the gap that ranks first is taken
//
// A gap that is taken gives its bytes back to the walk from that operation until `lead` operations before the
// one that needs the tensor. Rules for victims differ in the rank alone. What lies in tier 0 is what the
// trace says, without queues or times: a plan, which the simulator then times.
//
// A persistent tensor's last gap leads into the next step. It is one gap with two ends, before the tensor's
// first use and after its last: taken in one, it is taken in both.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "daemon/planner/simulate/gaps/gaps.h"

namespace terrace::planner {

struct Leaving {
  std::uint32_t gap = 0;  // index into EvictionWalk::gaps()
  std::uint32_t at = 0;   // the operation that had no room
};

class EvictionWalk {
 public:
  // Of the gap, or of its end before the first use; the smallest rank leaves first, of equals the first gap.
  using Rank = std::function<std::int64_t(std::uint32_t gap, bool before_first_use)>;

  // The trace must outlive the walk. Gaps too short for `lead` are left out, and those in `gone`, of which
  // nothing lies in tier 0 (in order of tensor and begin, as gaps_of() has them).
  EvictionWalk(const wire::Trace& trace, std::uint64_t limit_bytes, std::uint32_t lead,
               const std::vector<Gap>& gone = {});

  const std::vector<Gap>& gaps() const { return gaps_; }
  // The operation at which a gap's memory is taken again: `lead` before its end, within the step.
  std::uint32_t back(const Gap& gap) const { return gap.to > lead_ ? gap.to - lead_ : 0; }

  // In the order in which they leave; O(log n) a gap. Where no gap is left, memory stays short.
  std::vector<Leaving> run(const Rank& rank) const;

 private:
  const wire::Trace& trace_;
  std::uint64_t limit_bytes_;
  std::uint32_t lead_;
  std::vector<Gap> gaps_;
  std::vector<std::uint64_t> resident_;
  std::vector<std::vector<std::uint32_t>> begin_,
      end_;  // by operation: gaps that may be taken from, until it
};

}  // namespace terrace::planner
