// What of a step's contents lies in memory at an instant of a run, and who made what from what.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/planner/recompute/step.h"

namespace terrace::planner::recompute {

struct Residency {
  explicit Residency(const Step& of)
      : step(of), present(of.storages.size()), made(of.storages.size()), last_used_ns(of.storages.size()) {}

  // Evicted means made once and not there now, for whatever reason.
  [[nodiscard]] bool evicted(std::uint32_t s) const { return made[s] && !present[s]; }
  [[nodiscard]] std::int64_t cost_ns(std::uint32_t s) const {
    const std::uint32_t maker = step.storages[s].maker;
    return maker == nothing ? 0 : step.operations[maker].cost_ns;
  }

  // Calls visit(storage) for all that the storage was made from.
  template <class Visit>
  void parents(std::uint32_t s, Visit visit) const {
    const std::uint32_t maker = step.storages[s].maker;
    if (maker == nothing) return;
    for (const std::uint32_t p : step.operations[maker].reads) visit(p);
  }
  // Likewise for all that is made from it, made yet or not.
  template <class Visit>
  void children(std::uint32_t s, Visit visit) const {
    for (const std::uint32_t reader : step.storages[s].readers)
      for (const std::uint32_t c : step.operations[reader].makes) visit(c);
  }

  const Step& step;
  std::vector<char> present, made;
  std::vector<std::int64_t> last_used_ns;
  std::int64_t clock_ns = 0;
};

}  // namespace terrace::planner::recompute
