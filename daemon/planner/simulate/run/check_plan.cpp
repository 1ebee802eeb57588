// What must hold before anything is simulated; the parsers check more, but plans are also built in memory.
#include <algorithm>
#include <cmath>

#include "daemon/planner/one_bit.h"
#include "daemon/planner/simulate/program.h"

namespace terrace::planner {
namespace {

bool is_rate(double x) { return std::isfinite(x) && x >= least_bytes_per_second; }
bool not_negative(double x) { return std::isfinite(x) && x >= 0; }

std::string check_link(const Link& link, std::size_t i) {
  const std::string name = "links[" + std::to_string(i) + "] ('" + link.name + "')";
  if (!is_rate(link.in_bytes_per_second) || !is_rate(link.out_bytes_per_second)) {
    return name + " needs a bandwidth of at least 1 byte a second in both directions";
  }
  if (!not_negative(link.in_latency_us) || !not_negative(link.out_latency_us)) {
    return name + " has a latency that is negative or not a number";
  }
  return {};
}

std::string check_links(const Machine& machine, const std::vector<std::uint32_t>& links,
                        const std::string& name) {
  if (links.empty()) return name + " leads over no link";
  for (const std::uint32_t link : links) {
    if (link >= machine.links.size())
      return name + " leads over link " + std::to_string(link) + ", which does not exist";
    if (std::count(links.begin(), links.end(), link) > 1) return name + " takes the same link twice";
  }
  return {};
}

std::string check_route(const Machine& machine, std::size_t i) {
  const Route& route = machine.routes[i];
  const std::string name = "routes[" + std::to_string(i) + "]";
  if (route.tier == 0 || route.tier >= machine.tiers.size()) {
    return name + " leads to tier " + std::to_string(route.tier) + ", which is tier 0 or does not exist";
  }
  if (std::string wrong = check_links(machine, route.links, name); !wrong.empty()) return wrong;
  for (std::size_t other = 0; other < i; ++other) {
    if (machine.routes[other].tier == route.tier)
      return name + " is the second route to its tier; a tier has one";
  }
  return {};
}

std::string check_far_route(const Machine& machine, std::size_t i) {
  const FarRoute& route = machine.far_routes[i];
  const std::string name = "far_routes[" + std::to_string(i) + "]";
  for (const std::uint32_t end : {route.from, route.tier}) {
    if (end == 0 || end >= machine.tiers.size() || machine.is_inside(end) || !machine.has_route(end))
      return name + " ends in tier " + std::to_string(end) +
             ", which has no route to tier 0 or lies inside it";
  }
  if (route.from == route.tier) return name + " leads from tier " + std::to_string(route.tier) + " to itself";
  for (std::size_t other = 0; other < i; ++other) {
    const FarRoute& o = machine.far_routes[other];
    if (std::minmax(o.from, o.tier) == std::minmax(route.from, route.tier))
      return name + " is the second one between its tiers";
  }
  return check_links(machine, route.links, name);
}

std::string check_codec(const CodecCost& codec, std::size_t i) {
  const std::string name = "codecs[" + std::to_string(i) + "] ('" + codec.name + "')";
  if (codec.name.empty()) return name + " has no name";
  if (codec.one_bit && codec.decompress_bytes_per_second != 0)
    return name + " keeps one bit a value, from which no value comes back, and has a speed for that";
  if (codec.one_bit && codec.overlaps) return name + " keeps one bit a value and cannot overlap computing";
  if (!is_rate(codec.compress_bytes_per_second) ||
      !(codec.one_bit || is_rate(codec.decompress_bytes_per_second))) {
    return name + " needs a speed of at least 1 byte a second in both directions";
  }
  if (!not_negative(codec.stored_share) || !not_negative(codec.overhead_share)) {
    return name + " has a share that is negative or not a number";
  }
  return {};
}

std::string check_references(const wire::Trace& trace, std::size_t op) {
  const wire::TraceOp& o = trace.ops[op];
  const std::string name = "ops[" + std::to_string(op) + "]";
  if (!not_negative(o.time_us) || std::any_of(o.variants.begin(), o.variants.end(),
                                              [](const auto& v) { return !not_negative(v.time_us); }))
    return name + " takes a time that is negative or not a number";
  for (const auto* list : {&o.inputs, &o.outputs}) {
    for (const std::uint32_t t : *list) {
      if (t >= trace.tensors.size())
        return name + " names tensor " + std::to_string(t) + ", which does not exist";
    }
  }
  const std::string wrong = wrong_sign_only(trace, o);
  return wrong.empty() ? wrong : name + "." + wrong;
}

// Sums of bytes, also of two copies of a tensor, must not wrap.
bool too_many_bytes(const wire::Trace& trace) {
  constexpr std::uint64_t most = std::uint64_t{1} << 62;
  std::uint64_t sum = 0;
  const auto add = [&](std::uint64_t bytes) {
    sum = bytes >= most - sum ? most - 1 : sum + bytes;
    return sum == most - 1;
  };
  for (const wire::TraceTensor& t : trace.tensors) {
    if (add(t.bytes)) return true;
  }
  return std::any_of(trace.ops.begin(), trace.ops.end(), [&](const wire::TraceOp& op) {
    std::uint64_t most_workspace = op.workspace_bytes;  // only one variant runs
    for (const wire::OpVariant& v : op.variants) most_workspace = std::max(most_workspace, v.workspace_bytes);
    return add(most_workspace);
  });
}

std::string check_inside(const Machine& machine) {
  if (machine.is_inside(0)) return "tiers[0] cannot lie inside itself";
  if (std::count_if(machine.tiers.begin(), machine.tiers.end(), [](const Tier& t) { return t.inside; }) > 1)
    return "two tiers lie inside tier 0; one can";
  return {};
}

// What the tensor and the tier alone say; whether values are read later: program.h.
std::string check_one_bit(const Machine& machine, const wire::TraceTensor& t, const wire::ScheduleEntry& e) {
  if (e.action != wire::Action::out || !machine.keeps_one_bit(e.codec)) return {};
  const std::string what = "codec '" + machine.codecs[e.codec - 1].name + "' keeps one bit of each value";
  const std::string which = "tensor " + std::to_string(t.id);
  if (!machine.is_inside(e.tier))
    return what + " and works inside tier 0 alone; send " + which + " there, or with another codec";
  if (t.persistent)
    return what + ", and " + which + " is persistent: the next step needs its values; use another codec";
  if (one_bit_bytes(t) == 0 && t.bytes > 0)
    return what + ", and " + which + " is not known to have floating-point values: its dtype is '" + t.dtype +
           "'; use another codec";
  return {};
}

std::string check_target(const Machine& machine, const wire::ScheduleEntry& e) {
  if (wire::moves(e.action) && !machine.has_route(e.tier))
    return "there is no route to tier " + std::to_string(e.tier);
  if (e.action == wire::Action::stage && !machine.has_far_route(e.tier))
    return "there is no far route to tier " + std::to_string(e.tier);
  if (e.codec > machine.codecs.size())
    return "the machine has no codec number " + std::to_string(e.codec - 1);
  if (e.action == wire::Action::out && e.codec == 0 && machine.is_inside(e.tier))
    return "tier " + std::to_string(e.tier) + " lies inside tier 0: what goes there needs a codec";
  return {};
}

std::string check_entry(const wire::Trace& trace, const Machine& machine, const wire::ScheduleEntry& e) {
  if (e.at > trace.ops.size()) return "ordinal " + std::to_string(e.at) + " is beyond the last operation";
  if (e.by < e.at) return "the deadline is before the begin";
  if (e.object >= trace.tensors.size()) return "there is no tensor " + std::to_string(e.object);
  if (e.action >= wire::Action::count) return "the action is unknown";
  if (e.begin != 0 || e.bytes < trace.tensors[e.object].bytes)
    return "the entry moves a part of tensor " + std::to_string(e.object) +
           "; the simulator moves whole tensors";
  const std::string wrong = check_target(machine, e);
  return wrong.empty() ? check_one_bit(machine, trace.tensors[e.object], e) : wrong;
}

}  // namespace

std::string check_machine(const Machine& machine) {
  if (machine.tiers.empty()) return "the machine has no tier";
  std::string wrong = check_inside(machine);
  for (std::size_t i = 0; i < machine.links.size() && wrong.empty(); ++i) {
    wrong = check_link(machine.links[i], i);
  }
  for (std::size_t i = 0; i < machine.routes.size() && wrong.empty(); ++i) wrong = check_route(machine, i);
  for (std::size_t i = 0; i < machine.far_routes.size() && wrong.empty(); ++i)
    wrong = check_far_route(machine, i);
  for (std::size_t i = 0; i < machine.codecs.size() && wrong.empty(); ++i) {
    wrong = check_codec(machine.codecs[i], i);
  }
  return wrong;
}

std::string check_trace(const wire::Trace& trace) {
  std::string wrong;
  for (std::size_t op = 0; op < trace.ops.size() && wrong.empty(); ++op) wrong = check_references(trace, op);
  if (wrong.empty() && too_many_bytes(trace)) wrong = "the tensors and workspaces have 2^62 bytes or more";
  return wrong;
}

std::string check_entries(const wire::Trace& trace, const Machine& machine, const wire::Schedule& schedule) {
  if (schedule.period != 0 && schedule.period != trace.ops.size())
    return "the schedule's period has " + std::to_string(schedule.period) + " ordinals, the step " +
           std::to_string(trace.ops.size()) + " operations";
  const std::uint64_t capacity_bytes = machine.tiers[0].capacity_bytes;
  if (schedule.spare_bytes > 0 && schedule.spare_bytes >= capacity_bytes)
    return "the schedule leaves " + std::to_string(schedule.spare_bytes) +
           " bytes of tier 0 free, which has " + std::to_string(capacity_bytes) +
           "; make the plan again for this machine";
  for (std::size_t i = 0; i < schedule.entries.size(); ++i) {
    std::string wrong = check_entry(trace, machine, schedule.entries[i]);
    if (wrong.empty() && i > 0 && schedule.entries[i - 1].at > schedule.entries[i].at) {
      wrong = "the entry stands behind one of a later ordinal";
    }
    if (!wrong.empty()) return "entries[" + std::to_string(i) + "]: " + wrong;
  }
  return {};
}

}  // namespace terrace::planner
