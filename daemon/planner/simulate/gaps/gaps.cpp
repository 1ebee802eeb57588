#include "daemon/planner/simulate/gaps/gaps.h"

#include <algorithm>

#include "daemon/planner/schedule_period.h"

namespace terrace::planner {
namespace {

constexpr std::uint32_t unnamed = 0xffffffffU;

struct GapUse {
  std::uint32_t op = 0;
  bool reads = false;
};

std::vector<std::vector<GapUse>> namings_of(const wire::Trace& trace) {
  std::vector<std::vector<GapUse>> uses(trace.tensors.size());
  const auto name = [&](std::uint32_t t, std::uint32_t op, bool reads) {
    if (uses[t].empty() || uses[t].back().op != op) uses[t].push_back({op, reads});
  };
  for (std::uint32_t op = 0; op < trace.ops.size(); ++op) {
    for (const std::uint32_t t : trace.ops[op].inputs) name(t, op, true);
    for (const std::uint32_t t : trace.ops[op].outputs) name(t, op, false);
  }
  return uses;
}

// The operations of a gap, as one or two half-open ranges.
template <class Visit>
void for_ranges(const Gap& gap, std::uint32_t ops, Visit visit) {
  if (!gap.wraps) {
    visit(gap.from + 1, gap.to);
    return;
  }
  visit(gap.from + 1, ops);
  visit(0, gap.to);
}

double over_us(const Machine& machine, const std::vector<std::uint32_t>& links, std::uint64_t bytes,
               bool in) {
  double slowest = 0;
  double latency = 0;
  for (const std::uint32_t l : links) {
    const Link& link = machine.links[l];
    const double rate = (in ? link.in_bytes_per_second : link.out_bytes_per_second) / 1e6;
    slowest = std::max(slowest, static_cast<double>(bytes) / rate);
    latency += in ? link.in_latency_us : link.out_latency_us;
  }
  return latency + slowest;
}

}  // namespace

std::vector<Gap> gaps_of(const wire::Trace& trace) {
  const std::vector<std::vector<GapUse>> uses = namings_of(trace);
  std::vector<Gap> gaps;
  for (std::uint32_t t = 0; t < uses.size(); ++t) {
    const std::vector<GapUse>& u = uses[t];
    if (u.empty() || trace.tensors[t].bytes == 0) continue;
    for (std::size_t i = 1; i < u.size(); ++i) {
      if (u[i].reads && u[i].op > u[i - 1].op + 1) gaps.push_back({t, u[i - 1].op, u[i].op, false});
    }
    const bool room_at_the_ends = u.back().op + 1 < trace.ops.size() || u.front().op > 0;
    if (trace.tensors[t].persistent && u.front().reads && room_at_the_ends) {
      gaps.push_back({t, u.back().op, u.front().op, true});
    }
  }
  return gaps;
}

std::vector<double> ideal_starts_us(const wire::Trace& trace) {
  std::vector<double> starts(1, 0);
  for (const wire::TraceOp& op : trace.ops) starts.push_back(starts.back() + op.time_us);
  return starts;
}

std::optional<std::uint32_t> backward_begin(const wire::Trace& trace) {
  for (std::uint32_t op = 0; op < trace.ops.size(); ++op) {
    const auto& outputs = trace.ops[op].outputs;
    if (std::any_of(outputs.begin(), outputs.end(),
                    [&](std::uint32_t t) { return trace.tensors[t].kind == wire::TensorKind::gradient; })) {
      return op;
    }
  }
  return std::nullopt;
}

std::vector<std::uint64_t> resident_bytes(const wire::Trace& trace) {
  std::vector<std::uint32_t> first(trace.tensors.size(), unnamed);
  std::vector<std::uint32_t> last(trace.tensors.size(), 0);
  for (std::uint32_t op = 0; op < trace.ops.size(); ++op) {
    for (const auto* list : {&trace.ops[op].inputs, &trace.ops[op].outputs}) {
      for (const std::uint32_t t : *list) {
        first[t] = std::min(first[t], op);
        last[t] = op;
      }
    }
  }
  std::uint64_t always = 0;
  std::vector<std::uint64_t> change(trace.ops.size() + 1, 0);  // modulo 2^64
  for (std::size_t t = 0; t < first.size(); ++t) {
    const std::uint64_t bytes = trace.tensors[t].bytes;
    if (trace.tensors[t].persistent) always += bytes;
    if (trace.tensors[t].persistent || first[t] == unnamed) continue;
    change[first[t]] += bytes;
    change[last[t] + 1] -= bytes;
  }
  std::vector<std::uint64_t> resident;
  std::uint64_t living = always;
  for (std::size_t op = 0; op < trace.ops.size(); ++op) {
    living += change[op];
    resident.push_back(living + trace.ops[op].workspace_bytes);
  }
  return resident;
}

std::uint32_t Residency::earliest(std::uint32_t begin, std::uint32_t end, std::uint64_t bytes,
                                  std::uint64_t limit) const {
  constexpr std::uint64_t most_load = std::uint64_t{1} << 62;  // the tree's
  limit = std::min(limit, most_load);
  if (begin >= end || bytes > limit) return end;
  const std::optional<std::uint32_t> full = bytes_.last_above(begin, end, limit - bytes);
  return full ? *full + 1 : begin;
}

FarTiers::FarTiers(const wire::Trace& trace, const Machine& machine)
    : machine_(machine), used_(machine.tiers.size()), ops_(static_cast<std::uint32_t>(trace.ops.size())) {
  for (const Route& route : machine.routes)
    if (!machine.is_inside(route.tier)) tiers_.push_back(route.tier);
  std::sort(tiers_.begin(), tiers_.end());
  for (const std::uint32_t tier : tiers_) used_[tier].reset(std::vector<std::uint64_t>(ops_, 0));
}

double FarTiers::transfer_us(std::uint32_t tier, std::uint64_t bytes, bool in) const {
  for (const Route& route : machine_.routes)
    if (route.tier == tier) return over_us(machine_, route.links, bytes, in);
  return 0;
}

double FarTiers::stage_us(std::uint32_t source, std::uint32_t target, std::uint64_t bytes) const {
  const FarWay way = *machine_.far_way(source, target);
  return over_us(machine_, machine_.far_routes[way.route].links, bytes, way.in);
}

bool FarTiers::has_room(std::uint32_t tier, const Gap& gap, std::uint64_t bytes) const {
  const std::uint64_t capacity = machine_.tiers[tier].capacity_bytes;
  bool room = bytes <= capacity;
  for_ranges(gap, ops_, [&](std::uint32_t begin, std::uint32_t end) {
    room = room && (begin >= end || used_[tier].peak(begin, end).bytes <= capacity - bytes);
  });
  return room;
}

void FarTiers::take(std::uint32_t tier, const Gap& gap, std::uint64_t bytes) {
  for_ranges(gap, ops_, [&](std::uint32_t begin, std::uint32_t end) { used_[tier].add(begin, end, bytes); });
}

std::optional<std::uint32_t> FarTiers::place(const Gap& gap, std::uint64_t bytes) {
  for (const std::uint32_t tier : tiers_) {
    if (!has_room(tier, gap, bytes)) continue;
    take(tier, gap, bytes);
    return tier;
  }
  return std::nullopt;
}

std::vector<wire::ScheduleEntry> moves_of(const wire::Trace& trace, const Machine& machine,
                                          std::uint32_t first, std::vector<Offload> offloads) {
  using wire::Action;
  const auto ops = static_cast<std::uint32_t>(trace.ops.size());
  Residency residency(trace);
  std::vector<wire::ScheduleEntry> entries;
  for (const Offload& o : offloads) {
    const std::uint64_t bytes = trace.tensors[o.gap.tensor].bytes;
    for_ranges(o.gap, ops,
               [&](std::uint32_t begin, std::uint32_t end) { residency.remove(begin, end, bytes); });
    entries.push_back({o.gap.from + 1, o.gap.tensor, Action::out, o.tier, o.codec});
  }
  std::stable_sort(offloads.begin(), offloads.end(),
                   [](const Offload& a, const Offload& b) { return a.gap.to < b.gap.to; });
  std::uint32_t at = first;  // prefetches keep their order
  for (const Offload& o : offloads) {
    const std::uint64_t bytes = trace.tensors[o.gap.tensor].bytes;
    const std::uint32_t away_from = o.gap.wraps ? 0 : o.gap.from + 1;
    const std::uint32_t begin = std::min(std::max(at, away_from), o.gap.to);
    at = residency.earliest(begin, o.gap.to, bytes, machine.tiers[0].capacity_bytes);
    residency.add(at, o.gap.to, bytes);
    entries.push_back({at, o.gap.tensor, Action::in, o.tier, {}});
  }
  return entries;
}

wire::Schedule sorted_schedule(const wire::Trace& trace, const char* policy,
                               const std::vector<wire::ScheduleEntry>& entries) {
  std::vector<std::size_t> next(trace.ops.size() + 2, 0);  // by position: where its next entry goes
  for (const wire::ScheduleEntry& e : entries) ++next[e.at + 1];
  for (std::size_t position = 1; position < next.size(); ++position) next[position] += next[position - 1];
  wire::Schedule schedule{trace.name, policy, std::vector<wire::ScheduleEntry>(entries.size())};
  for (const wire::ScheduleEntry& e : entries) schedule.entries[next[e.at]++] = e;
  give_deadlines(trace, &schedule);
  return schedule;
}

}  // namespace terrace::planner
