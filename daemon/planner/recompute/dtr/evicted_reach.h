// What it would cost to make again all that was evicted around a storage, in one direction.
//
//     a ── (b) ── (c) ── d ── e        ( ) evicted
//
// Towards its parents d reaches c and b; a is there, so the search ends. Costs are remembered. When b is
// evicted or comes back, only what reaches it through evicted storages changes: a search the other way from
// b finds the first ones that are there, here d, and forgets their costs. Each search takes time linear in
// what was evicted there and its neighbours.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/planner/recompute/dtr/residency.h"

namespace terrace::planner::recompute {

enum class Towards : std::uint8_t { parents, children };

class EvictedReach {
 public:
  EvictedReach(const Residency& residency, Towards direction);

  // Of a storage that is there; itself not counted.
  std::int64_t cost_ns(std::uint32_t storage);
  // It was evicted or has come back; the residency says so already.
  void changed(std::uint32_t storage);

 private:
  // Calls interior(s) for evicted storages and frontier(s) for those that are there; each once.
  template <class Interior, class Frontier>
  void search(std::uint32_t from, Towards direction, Interior interior, Frontier frontier);

  const Residency& r_;
  Towards direction_;
  std::vector<std::int64_t> costs_;  // of those that are known
  std::vector<char> known_;
  std::vector<std::uint32_t> seen_;  // number of the search that saw it
  std::vector<std::uint32_t> open_;
  std::uint32_t searches_ = 0;
};

}  // namespace terrace::planner::recompute
