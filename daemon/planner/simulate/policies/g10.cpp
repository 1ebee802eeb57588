// G10's tensor migration (Zhang et al., MICRO'23, section 4.3) for machines of our own: the planner that
// reproduces its artifact (g10/migration_planner.h), with whole tensors instead of pages.
//
// The nearest tier is G10's host memory, the farthest its SSD; where there is only one, it is the SSD, as in
// G10-GDS. What differs from the artifact's plan: the best interval comes from a queue instead of a sort
// (g10/benefit_queue.h); pressure is measured at what the plan aims at, 99% of tier 0, so that no interval is
// chosen by the sort's chance at the end; an interval too short to move does not end the planning; memory in
// use is the tensors' lives as the simulator has them, and a GB is what the machine says. The rest is left to
// demand and FIFO eviction.
#include <algorithm>

#include "daemon/planner/g10/benefit_queue.h"
#include "daemon/planner/simulate/gaps/gaps.h"
#include "daemon/planner/simulate/policies/policies.h"

namespace terrace::planner {
namespace {

using wire::Action;

constexpr double target_share = 0.99;     // of tier 0
constexpr double system_latency_us = 45;  // of the artifact's default configuration, for both ways
constexpr double ssd_latency_us = 20;
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 62;  // unlimited, to a planner that adds

g10::Way way_to(const Machine& machine, std::uint32_t tier, double latency_us) {
  const auto route = std::find_if(machine.routes.begin(), machine.routes.end(),
                                  [tier](const Route& r) { return r.tier == tier; });
  g10::Way way{1e300, 1e300, latency_us, latency_us};
  for (const std::uint32_t l : route->links) {
    const Link& link = machine.links[l];
    way.out_bytes_per_us = std::min(way.out_bytes_per_us, link.out_bytes_per_second / 1e6);
    way.in_bytes_per_us = std::min(way.in_bytes_per_us, link.in_bytes_per_second / 1e6);
    way.out_latency_us += link.out_latency_us;
    way.in_latency_us += link.in_latency_us;
  }
  return way;
}

g10::MigrationRules migration_rules(const Machine& machine, std::uint32_t host, std::uint32_t ssd) {
  g10::MigrationRules rules;
  const std::uint64_t memory = std::min(machine.tiers[0].capacity_bytes, most_bytes);
  rules.target_bytes = static_cast<std::uint64_t>(target_share * static_cast<double>(memory));
  rules.host_bytes = host == ssd ? 0 : machine.tiers[host].capacity_bytes;
  rules.ssd_bytes = machine.tiers[ssd].capacity_bytes;
  rules.host = way_to(machine, host, system_latency_us);
  rules.ssd = way_to(machine, ssd, system_latency_us + ssd_latency_us);
  return rules;
}

// Of this step and the next.
std::vector<double> two_steps(const wire::Trace& trace) {
  std::vector<double> begin_us = ideal_starts_us(trace);
  for (const wire::TraceOp& op : trace.ops) begin_us.push_back(begin_us.back() + op.time_us);
  return begin_us;
}

std::vector<g10::Interval> intervals_of(const wire::Trace& trace, const std::vector<double>& begin_us) {
  const auto ops = static_cast<std::uint32_t>(trace.ops.size());
  std::vector<g10::Interval> intervals;
  for (const Gap& gap : gaps_of(trace)) {
    g10::Interval interval{gap.tensor, (gap.from + 1) % ops,           gap.to, false,
                           0,          trace.tensors[gap.tensor].bytes};
    interval.looped = interval.end < interval.start;
    interval.time_us = begin_us[interval.end + (interval.looped ? ops : 0)] - begin_us[interval.start];
    intervals.push_back(interval);
  }
  return intervals;
}

}  // namespace

Result<wire::Schedule> plan_g10(const wire::Trace& trace, const Machine& machine) {
  const FarTiers far(trace, machine);
  if (!far.any() || trace.ops.empty()) return ok(wire::Schedule{trace.name, "g10", {}});
  const std::uint32_t host = far.tiers().front(), ssd = far.farthest();
  const std::vector<double> begin_us = two_steps(trace);
  std::vector<wire::ScheduleEntry> entries;
  std::vector<std::uint32_t> lies_in(trace.tensors.size(), ssd);
  for (const PageScheduleEntry& move :
       g10::migrate_by_benefit(intervals_of(trace, begin_us), resident_bytes(trace), begin_us,
                               migration_rules(machine, host, ssd))) {
    const bool in = move.action == PageAction::fetch;
    if (!in) lies_in[move.tensor] = move.action == PageAction::evict_to_host ? host : ssd;
    entries.push_back({move.op, move.tensor, in ? Action::in : Action::out, lies_in[move.tensor], {}});
  }
  return ok(sorted_schedule(trace, "g10", entries));
}

}  // namespace terrace::planner
