// Evicted storages that touch, as classes of a union-find: the paper's approximation of the evicted
// neighbourhood (Kirisame et al., ICLR 2021, h_DTR-eq).
//
// A class knows the sum of its members' costs. Evicting joins the classes of all neighbours. What comes back
// takes its cost out of the sum and leaves no hole: union-find cannot split, so a class may go on as one
// where evicted storages no longer touch. Nearly constant time per neighbour.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/planner/recompute/dtr/residency.h"

namespace terrace::planner::recompute {

class EvictedClasses {
 public:
  explicit EvictedClasses(const Residency& residency)
      : r_(residency), node_(residency.step.storages.size(), nothing) {}

  void evicted(std::uint32_t storage);
  void came_back(std::uint32_t storage);
  // The sums of all classes that touch a storage that is there, each class once.
  std::int64_t cost_around_ns(std::uint32_t storage);

 private:
  struct Node {
    std::uint32_t parent = nothing;
    std::int64_t sum_ns = 0;  // of a root
    std::uint64_t seen = 0;   // likewise: number of the look around that saw it
  };

  std::uint32_t root_of(std::uint32_t node);
  template <class Visit>
  void evicted_neighbours(std::uint32_t storage, Visit visit);

  const Residency& r_;
  std::vector<std::uint32_t> node_;  // of each evicted storage
  std::vector<Node> nodes_;
  std::uint64_t looks_ = 0;
};

}  // namespace terrace::planner::recompute
