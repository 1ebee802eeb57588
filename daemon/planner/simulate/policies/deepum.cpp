// DeepUM (ASPLOS'23): prefetching by correlation, on top of unified memory.
//
// DeepUM notes which blocks of pages each kernel faulted for and which kernel came next, and prefetches along
// that chain a number of kernels ahead. The paper's text was not at hand: the rule is that of G10's artifact,
// which rebuilt it as "DeepUM+" and whose page-level form is g10/deepum.cpp. A step that repeats makes the
// tables right, so what they would say is read from the trace. Each operation brings in what the one `ahead`
// later needs; where that leaves too little room, what none of the operations between needs leaves first,
// least recently used first. In its own system a prefetch evicts by itself; here a prefetch never does
// (simulator.h), so the evictions stand in the schedule. What a plan by bytes cannot foresee is moved on
// demand.
#include <algorithm>

#include "daemon/planner/g10/g10.h"
#include "daemon/planner/simulate/gaps/eviction_walk.h"
#include "daemon/planner/simulate/policies/policies.h"

namespace terrace::planner {

using wire::Action;

Result<wire::Schedule> plan_deepum(const wire::Trace& trace, const Machine& machine) {
  const auto ahead = static_cast<std::uint32_t>(G10Machine{}.deepum_ahead);
  const auto ops = static_cast<std::int64_t>(trace.ops.size());
  const EvictionWalk walk(trace, machine.tiers[0].capacity_bytes, ahead);
  const auto last_use = [&](std::uint32_t gap, bool before_first_use) {
    return walk.gaps()[gap].from - (before_first_use ? ops : 0);
  };
  FarTiers far(trace, machine);
  std::vector<wire::ScheduleEntry> entries;
  for (const Leaving& leaving : walk.run(last_use)) {
    const Gap& gap = walk.gaps()[leaving.gap];
    const std::optional<std::uint32_t> tier = far.place(gap, trace.tensors[gap.tensor].bytes);
    if (!tier) continue;
    // One that rests before its first use left in the step before.
    const std::uint32_t out = leaving.at > gap.from ? leaving.at : gap.from + 1;
    entries.push_back({out, gap.tensor, Action::out, *tier, {}});
    entries.push_back({walk.back(gap), gap.tensor, Action::in, *tier, {}});
  }
  return ok(sorted_schedule(trace, "deepum", entries));
}

}  // namespace terrace::planner
