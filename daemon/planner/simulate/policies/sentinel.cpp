// Sentinel (Ren et al., HPCA'21): the step is cut into migration intervals; at the beginning of each, what
// the next one names is prefetched, and what neither this nor the next one names leaves.
//
// Its layers are operations here. The paper picks the interval's length by a model (what is prefetched must
// fit beside the short-lived tensors, and arrive within an interval) and then by trying steps; here the
// powers of four are tried by simulation, until two in a row are no better than the best, and then twice and
// half of the best.
#include <algorithm>

#include "daemon/planner/simulate/gaps/gaps.h"
#include "daemon/planner/simulate/policies/policies.h"

namespace terrace::planner {
namespace {

using wire::Action;
using wire::ScheduleEntry;

constexpr int worse_lengths_in_a_row = 2;  // end the search

// A gap that has whole intervals in it, so that the tensor leaves at the first of them that does not need it
// and comes back one interval ahead.
void cut(const Gap& gap, std::uint32_t length, std::uint32_t ops, std::uint32_t tier,
         std::vector<ScheduleEntry>* entries) {
  const std::uint32_t intervals = (ops + length - 1) / length;
  const std::uint32_t out = gap.from / length + 1;  // begins after the last use
  const std::uint32_t to = gap.to / length;
  if (!gap.wraps) {
    if (to < out + 2) return;  // needed in this interval or the next
    entries->push_back({out * length, gap.tensor, Action::out, tier, {}});
    entries->push_back({(to - 1) * length, gap.tensor, Action::in, tier, {}});
    return;
  }
  if (intervals - std::min(out, intervals) + to < 2) return;
  entries->push_back({std::min(out * length, ops), gap.tensor, Action::out, tier, {}});
  const std::uint32_t in = to > 0 ? to - 1 : intervals - 1;
  entries->push_back({in * length, gap.tensor, Action::in, tier, {}});
}

struct Placed {
  Gap gap;
  std::uint32_t tier = 0;
};

std::vector<Placed> placed_gaps(const wire::Trace& trace, const Machine& machine) {
  FarTiers far(trace, machine);
  std::vector<Placed> placed;
  for (const Gap& gap : gaps_of(trace)) {
    const std::optional<std::uint32_t> tier = far.place(gap, trace.tensors[gap.tensor].bytes);
    if (tier) placed.push_back({gap, *tier});
  }
  return placed;
}

wire::Schedule with_intervals(const wire::Trace& trace, const std::vector<Placed>& placed,
                              std::uint32_t length) {
  const auto ops = static_cast<std::uint32_t>(trace.ops.size());
  std::vector<ScheduleEntry> entries;
  for (const Placed& p : placed) cut(p.gap, length, ops, p.tier, &entries);
  return sorted_schedule(trace, "sentinel_interval", entries);
}

// Test and trial: the best of the lengths that were simulated.
class Trials {
 public:
  Trials(const wire::Trace& trace, const Machine& machine)
      : trace_(trace), machine_(machine), placed_(placed_gaps(trace, machine)) {
    best_ = {trace.name, "sentinel_interval", {}};
  }

  bool is_better(std::uint32_t length) {
    wire::Schedule tried = with_intervals(trace_, placed_, length);
    const Result<SimulationReport> report =
        simulate(trace_, machine_, tried, {Victims::lru, StallRule::strict, 1, false, 0});
    if (!report || (best_length_ > 0 && report->total_us >= best_us_)) return false;
    best_ = std::move(tried);
    best_us_ = report->total_us;
    best_length_ = length;
    return true;
  }
  std::uint32_t best_length() const { return std::max(best_length_, 1U); }
  wire::Schedule take_best() { return std::move(best_); }

 private:
  const wire::Trace& trace_;
  const Machine& machine_;
  std::vector<Placed> placed_;
  wire::Schedule best_;
  double best_us_ = 0;
  std::uint32_t best_length_ = 0;  // 0: none yet
};

}  // namespace

Result<wire::Schedule> plan_sentinel_interval(const wire::Trace& trace, const Machine& machine) {
  if (Residency(trace).most() <= machine.tiers[0].capacity_bytes)
    return ok(wire::Schedule{trace.name, "sentinel_interval", {}});
  Trials trials(trace, machine);
  int no_better = 0;
  for (std::uint32_t length = 1; length < std::max<std::size_t>(trace.ops.size(), 2); length *= 4) {
    no_better = trials.is_better(length) ? 0 : no_better + 1;
    if (no_better == worse_lengths_in_a_row) break;
  }
  const std::uint32_t coarse = trials.best_length();
  trials.is_better(coarse * 2);
  if (coarse > 1) trials.is_better(coarse / 2);
  return ok(trials.take_best());
}

}  // namespace terrace::planner
