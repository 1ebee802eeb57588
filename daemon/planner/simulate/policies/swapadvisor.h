// SwapAdvisor's genetic search (Huang et al., ASPLOS'20), over who leaves for whom.
#pragma once

#include <cstdint>
#include <functional>

#include "daemon/planner/simulate/simulator.h"

namespace terrace::planner {

struct SwapAdvisorOptions {
  std::uint64_t seed = 0;
  // Plans that are tried, the first included: as many as have this many operations together, within limits.
  std::uint64_t most_operations = 400'000;
  std::uint32_t fewest_plans = 8, most_plans = 128;
  // Asked before each plan but the first; true ends the search with the best so far. Empty: never.
  std::function<bool()> stop;
};

// Deterministic for a seed; anytime: more plans are never worse. Not for several threads at once.
Result<wire::Schedule> search_swaps(const wire::Trace& trace, const Machine& machine,
                                    const SwapAdvisorOptions& options);

}  // namespace terrace::planner
