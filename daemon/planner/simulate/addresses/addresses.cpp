#include "daemon/planner/simulate/addresses/addresses.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "daemon/planner/reuse/portfolio/portfolio.h"
#include "daemon/planner/simulate/addresses/arcs.h"

namespace terrace::planner {
namespace {

using addresses::Arcs;

// Placements of a single buffer: first for as low as can be, then, where that does not fit, for the capacity.
constexpr std::uint64_t most_steps_for_lowest = std::uint64_t{1} << 16;
constexpr std::uint64_t most_steps_to_fit = std::uint64_t{1} << 19;
// Of each buffer: what gains nothing in as many has little left to gain.
constexpr std::uint64_t placements_for_lowest = 64, placements_to_fit = 512;

Placement placed(const Instance& instance, std::uint64_t capacity_bytes) {
  const std::uint64_t buffers = std::max<std::uint64_t>(1, instance.buffers.size());
  SearchControl control;
  control.steps = std::min(most_steps_for_lowest, placements_for_lowest * buffers);
  Placement lowest = portfolio::place(instance, control);
  const bool may_fit = max_live_bytes(instance.buffers) <= capacity_bytes;
  if (lowest.total_bytes <= capacity_bytes || !may_fit) return lowest;
  control.steps = std::min(most_steps_to_fit, placements_to_fit * buffers);
  control.capacity_bytes = capacity_bytes;
  Placement fitting = portfolio::place(instance, control);
  return fitting.total_bytes < lowest.total_bytes ? std::move(fitting) : std::move(lowest);
}

Addresses answer(const Arcs& arcs, const Placement& placement, std::uint64_t capacity_bytes) {
  Addresses all;
  all.offsets.reserve(arcs.buffer_of.size());
  for (const std::uint32_t buffer : arcs.buffer_of) all.offsets.push_back(placement.offsets[buffer]);
  all.needed_bytes = placement.total_bytes;
  all.fit = all.needed_bytes <= capacity_bytes;
  return all;
}

// Nothing where the step does not end as it began, or no placement that fits was found.
std::optional<Addresses> repeating(const SimulationReport& report, std::uint64_t capacity_bytes) {
  const std::optional<Arcs> arcs = addresses::repeated(report);
  if (!arcs || max_live_bytes(arcs->instance.buffers) > capacity_bytes) return std::nullopt;
  Addresses all = answer(*arcs, placed(arcs->instance, capacity_bytes), capacity_bytes);
  if (!all.fit) return std::nullopt;
  all.repeat = true;
  return all;
}

std::string check_repetition(const std::vector<Stay>& stays, const std::vector<std::uint64_t>& offsets) {
  std::map<std::pair<std::uint32_t, bool>, std::uint64_t> first;
  std::map<std::pair<std::uint32_t, bool>, std::uint64_t> last;
  for (std::size_t i = 0; i < stays.size(); ++i) {
    if (stays[i].from == 0) first[{stays[i].tensor, stays[i].coded}] = offsets[i];
    if (stays[i].until == Stay::to_the_end) last[{stays[i].tensor, stays[i].coded}] = offsets[i];
  }
  return first == last ? "" : "what lies there as the step ends has another address than as it begins";
}

}  // namespace

Instance instance_of(const SimulationReport& report) { return addresses::once(report).instance; }

Result<Addresses> addresses_of(const Machine& machine, const SimulationReport& report) {
  const std::uint64_t capacity_bytes = machine.tiers[0].capacity_bytes;
  const Arcs step = addresses::once(report);
  if (std::string why = refusal(step.instance); !why.empty()) return refused<Addresses>(std::move(why));
  std::optional<Addresses> found = repeating(report, capacity_bytes);
  if (!found) found = answer(step, placed(step.instance, capacity_bytes), capacity_bytes);
  found->peak_bytes = max_live_bytes(step.instance.buffers);
  if (std::string wrong = check_addresses(report, *found); !wrong.empty())
    return refused<Addresses>("the addresses are wrong: " + wrong);
  return ok(std::move(*found));
}

Result<Addresses> addresses_of(const wire::Trace& trace, const Machine& machine, const SwapPlan& plan) {
  const Result<SimulationReport> report = simulate_repeated(trace, machine, plan, plan.victims, true);
  if (!report) return refused<Addresses>(report.error);
  return addresses_of(machine, *report);
}

std::string check_addresses(const SimulationReport& report, const Addresses& addresses) {
  const Instance step = instance_of(report);
  std::string wrong = check_placement(step, {addresses.offsets, addresses.needed_bytes});
  if (wrong.empty() && addresses.peak_bytes != report.tier_peak_bytes.at(0))
    wrong = "the most bytes at once are " + std::to_string(addresses.peak_bytes) + ", of the report " +
            std::to_string(report.tier_peak_bytes[0]);
  if (wrong.empty() && addresses.repeat) wrong = check_repetition(report.stays, addresses.offsets);
  return wrong;
}

}  // namespace terrace::planner
