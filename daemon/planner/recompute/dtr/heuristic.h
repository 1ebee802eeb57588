// The rules by which DTR chooses what to evict; formulas and sources are in dtr.h.
#pragma once

#include <cstdint>
#include <memory>

#include "daemon/planner/recompute/dtr/dtr.h"
#include "daemon/planner/recompute/dtr/residency.h"

namespace terrace::planner::recompute {

// One for a run. The run tells it of every change after having noted it in the residency.
class Heuristic {
 public:
  virtual ~Heuristic() = default;
  // The storage with the least value goes. Infinite: only if nothing else can.
  virtual double value(std::uint32_t storage) = 0;
  virtual void evicted(std::uint32_t) {}
  virtual void came_back(std::uint32_t) {}
};

// `residency` must outlive what is returned.
std::unique_ptr<Heuristic> make_heuristic(HeuristicKind kind, std::uint64_t seed, const Residency& residency);

}  // namespace terrace::planner::recompute
