// Sentinel (Ren et al., HPCA'21): the step is cut into migration intervals; at the beginning of each, what
// the next one names is prefetched, and what neither this nor the next one names leaves.
//
// Its layers are operations here. The paper picks the interval's length by a model (what is prefetched must
// fit beside the short-lived tensors, and arrive within an interval) and then by trying steps; simulation is
// cheap, so every power of two is tried.
#include <algorithm>

#include "daemon/planner/simulate/policies/gaps.h"
#include "daemon/planner/simulate/policies/policies.h"

namespace terrace::planner {
namespace {

using wire::Action;
using wire::ScheduleEntry;

// A gap that has whole intervals in it, so that the tensor leaves at the first of them that does not need it
// and comes back one interval ahead.
void cut(const Gap& gap, std::uint32_t length, std::uint32_t ops, std::uint32_t tier,
         std::vector<ScheduleEntry>* entries) {
  const std::uint32_t intervals = (ops + length - 1) / length;
  const std::uint32_t out = gap.from / length + 1;  // begins after the last use
  const std::uint32_t to = gap.to / length;
  if (!gap.wraps) {
    if (to < out + 2) return;  // needed in this interval or the next
    entries->push_back({out * length, gap.tensor, Action::evict, tier, {}});
    entries->push_back({(to - 1) * length, gap.tensor, Action::prefetch, tier, {}});
    return;
  }
  if (intervals - std::min(out, intervals) + to < 2) return;
  entries->push_back({std::min(out * length, ops), gap.tensor, Action::evict, tier, {}});
  const std::uint32_t in = to > 0 ? to - 1 : intervals - 1;
  entries->push_back({in * length, gap.tensor, Action::prefetch, tier, {}});
}

wire::Schedule with_intervals(const wire::Trace& trace, const Machine& machine, const std::vector<Gap>& gaps,
                              std::uint32_t length) {
  FarTiers far(trace, machine);
  const auto ops = static_cast<std::uint32_t>(trace.ops.size());
  std::vector<ScheduleEntry> entries;
  for (const Gap& gap : gaps) {
    const std::optional<std::uint32_t> tier = far.place(gap, trace.tensors[gap.tensor].bytes);
    if (tier) cut(gap, length, ops, *tier, &entries);
  }
  return sorted_schedule(trace, "sentinel_interval", std::move(entries));
}

}  // namespace

Result<wire::Schedule> plan_sentinel_interval(const wire::Trace& trace, const Machine& machine) {
  wire::Schedule best{trace.name, "sentinel_interval", {}};
  if (Residency(trace).most() <= machine.tiers[0].capacity_bytes) return ok(std::move(best));
  const std::vector<Gap> gaps = gaps_of(trace);
  double best_us = 0;
  for (std::uint32_t length = 1; length < std::max<std::size_t>(trace.ops.size(), 2); length *= 2) {
    wire::Schedule tried = with_intervals(trace, machine, gaps, length);
    const Result<SimulationReport> report =
        simulate(trace, machine, tried, {Victims::lru, StallRule::strict, 2, false, 0});
    if (!report || (best_us > 0 && report->total_us >= best_us)) continue;
    best = std::move(tried);
    best_us = report->total_us;
  }
  return ok(std::move(best));
}

}  // namespace terrace::planner
