// What a plan tells the simulator to do when an operation begins.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/planner/g10/workload.h"

namespace terrace::planner::g10 {

enum class Move : std::uint8_t { bring, evict_to_host, evict_to_ssd, release };

struct Hint {
  std::uint32_t op = 0;  // number of operations: the begin of the next iteration
  Move move = Move::bring;
  std::uint32_t tensor = 0;
};

// In the order in which they are issued. DeepUM+: at every operation, what the one `deepum_ahead` later
// needs.
std::vector<Hint> deepum_hints(const Workload& workload, const G10Machine& machine);
// G10's own plan: planner.cpp.
std::vector<Hint> g10_hints(const Workload& workload, const G10Machine& machine);

}  // namespace terrace::planner::g10
