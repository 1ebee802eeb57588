// What a kernel's page faults add to its execution, as G10's artifact models it.
#pragma once

#include <cstdint>

#include "daemon/planner/g10/workload.h"

namespace terrace::planner::g10 {

struct FaultedPages {  // of one kernel at its begin; pages that are already in transfer count in `all` only
  std::uint64_t all = 0;
  std::uint64_t ssd = 0;
  std::uint64_t other = 0;  // in host memory, and not present at all
};

// In whole cycles, truncated; charged once, when the kernel begins.
std::uint64_t stall_cycles(const G10Machine& machine, const Kernel& kernel, const FaultedPages& inputs,
                           const FaultedPages& outputs);

}  // namespace terrace::planner::g10
