// What no schedule can beat.
//
// The bound by bandwidth: at operation k, everything that was named before and will be read after must exist
// somewhere; what of it, and of the operation itself, exceeds tier 0 must have left before k ends, and can
// return only after. Persistent tensors that k does not name are left out: where they lie when the step
// begins is not the schedule's doing. How long E bytes take is a small flow problem: tier j takes at most its
// capacity and its route's rate, routes with the same first link share it. Where far routes join tiers, what
// moved to one may have gone on to the others, so that each counts with the room of all. The amount that can
// move in time T is concave and piecewise linear, so its inverse is found by following the slope from 0,
// without ever overshooting.
#include <algorithm>
#include <limits>

#include "daemon/planner/one_bit.h"
#include "daemon/planner/simulate/simulator.h"
#include "daemon/planner/variants.h"

namespace terrace::planner {
namespace {

constexpr std::uint32_t no_op = 0xffffffffU;

// How fast what lies outside tier 0 can get there, or back.
class AllRoutes {
 public:
  AllRoutes(const Machine& machine, bool in) {
    for (const Route& route : machine.routes) {
      if (machine.is_inside(route.tier)) continue;  // what compresses has another bound
      Branch b{room_bytes(machine, route.tier), rate(machine, route.links[0], in), route.links[0]};
      for (const std::uint32_t link : route.links) b.rate = std::min(b.rate, rate(machine, link, in));
      branches_.push_back(b);
    }
    for (const Link& link : machine.links) {
      trunks_.push_back((in ? link.in_bytes_per_second : link.out_bytes_per_second) / 1e6);
    }
  }

  double time_us(double bytes) const {
    double t = 0;
    for (double moved = 0, slope = 0; bytes > 0;) {
      at(t, &moved, &slope);
      if (moved >= bytes) break;
      if (slope <= 0) return std::numeric_limits<double>::infinity();
      const double next = t + (bytes - moved) / slope;
      if (next <= t) break;
      t = next;
    }
    return t;
  }

 private:
  struct Branch {
    double capacity = 0;
    double rate = 0;  // bytes per µs
    std::uint32_t trunk = 0;
  };

  // Of the tier and of all that far routes lead to from it.
  static double room_bytes(const Machine& machine, std::uint32_t tier) {
    std::vector<bool> joined(machine.tiers.size(), false);
    joined[tier] = true;
    for (std::size_t round = 0; round < machine.far_routes.size(); ++round) {
      for (const FarRoute& r : machine.far_routes)
        if (joined[r.from] || joined[r.tier]) joined[r.from] = joined[r.tier] = true;
    }
    double sum = 0;
    for (std::size_t t = 0; t < joined.size(); ++t) {
      const std::uint64_t capacity = machine.tiers[t].capacity_bytes;
      if (joined[t])
        sum += capacity == unlimited_bytes ? std::numeric_limits<double>::infinity()
                                           : static_cast<double>(capacity);
    }
    return sum;
  }

  static double rate(const Machine& machine, std::uint32_t link, bool in) {
    return (in ? machine.links[link].in_bytes_per_second : machine.links[link].out_bytes_per_second) / 1e6;
  }

  // What can have moved by `t`, and how fast more moves just after.
  void at(double t, double* moved, double* slope) const {
    *moved = *slope = 0;
    for (std::uint32_t trunk = 0; trunk < trunks_.size(); ++trunk) {
      double sum = 0;
      double sum_slope = 0;
      for (const Branch& b : branches_) {
        if (b.trunk != trunk) continue;
        sum += std::min(b.capacity, t * b.rate);
        if (t * b.rate < b.capacity) sum_slope += b.rate;
      }
      const double trunk_sum = t * trunks_[trunk];
      *moved += std::min(sum, trunk_sum);
      *slope += trunk_sum < sum    ? trunks_[trunk]
                : trunk_sum == sum ? std::min(trunks_[trunk], sum_slope)
                                   : sum_slope;
    }
  }

  std::vector<Branch> branches_;
  std::vector<double> trunks_;  // per link
};

// Bytes per operation: all that lives, those it names, and those that must exist at it.
struct Load {
  std::vector<std::uint64_t> live, named, needed;
};

// What the operation's tensors take less where those of which it reads signs alone rest as such.
std::uint64_t spared_by_bits(const wire::Trace& trace, const wire::TraceOp& op) {
  std::uint64_t spared = 0;
  for (const std::uint32_t t : op.sign_only) {
    const wire::TraceTensor& tensor = trace.tensors[t];
    const std::uint64_t bits = one_bit_bytes(tensor);
    if (bits > 0 && !tensor.persistent) spared += tensor.bytes - bits;
  }
  return spared;
}

class Profile {
 public:
  explicit Profile(const wire::Trace& trace) : trace_(trace), last_(trace.tensors.size(), no_op) {
    const std::size_t n = trace.ops.size();
    live_change_.assign(n + 1, 0);
    needed_change_.assign(n + 1, 0);
    load_.named.assign(n, 0);
    first_ = last_;
  }

  Load load() {
    for (std::uint32_t op = 0; op < trace_.ops.size(); ++op) {
      for (const std::uint32_t t : trace_.ops[op].inputs) name(t, op, true);
      for (const std::uint32_t t : trace_.ops[op].outputs) name(t, op, false);
      load_.named[op] += trace_.ops[op].workspace_bytes;
    }
    for (std::size_t t = 0; t < last_.size(); ++t) add_life(t);
    load_.live = summed(live_change_);
    load_.needed = summed(needed_change_);
    for (std::size_t op = 0; op < trace_.ops.size(); ++op) {
      load_.live[op] += trace_.ops[op].workspace_bytes;
      load_.needed[op] += load_.named[op];
    }
    return std::move(load_);
  }

 private:
  const wire::Trace& trace_;
  std::vector<std::uint32_t> first_, last_;
  std::vector<std::uint64_t> live_change_, needed_change_;  // differences, modulo 2^64
  Load load_;

  void name(std::uint32_t t, std::uint32_t op, bool reads) {
    if (last_[t] == op) return;  // inputs come first: an update in place counts as reading
    const std::uint64_t bytes = trace_.tensors[t].bytes;
    load_.named[op] += bytes;
    if (last_[t] == no_op) first_[t] = op;
    if (last_[t] != no_op && reads && !trace_.tensors[t].persistent) {
      needed_change_[last_[t] + 1] += bytes;
      needed_change_[op] -= bytes;
    }
    last_[t] = op;
  }

  void add_life(std::size_t t) {
    const bool always = trace_.tensors[t].persistent;
    if (!always && last_[t] == no_op) return;
    live_change_[always ? 0 : first_[t]] += trace_.tensors[t].bytes;
    live_change_[always ? trace_.ops.size() : last_[t] + 1] -= trace_.tensors[t].bytes;
  }

  static std::vector<std::uint64_t> summed(std::vector<std::uint64_t> changes) {
    for (std::size_t i = 1; i < changes.size(); ++i) changes[i] += changes[i - 1];
    return changes;
  }
};

// Readers follow the last writer; writers follow it and its readers.
double critical_path_us(const wire::Trace& trace) {
  std::vector<double> written(trace.tensors.size(), 0);
  std::vector<double> read(trace.tensors.size(), 0);
  double longest = 0;
  for (const wire::TraceOp& op : trace.ops) {
    double start = 0;
    for (const std::uint32_t t : op.inputs) start = std::max(start, written[t]);
    for (const std::uint32_t t : op.outputs) start = std::max({start, written[t], read[t]});
    const double end = start + op.time_us;
    for (const std::uint32_t t : op.inputs) read[t] = std::max(read[t], end);
    for (const std::uint32_t t : op.outputs) written[t] = end;
    longest = std::max(longest, end);
  }
  return longest;
}

void bound_transfers(const wire::Trace& trace, const Machine& machine, const Load& load, LowerBounds* b) {
  const AllRoutes out(machine, false);
  const AllRoutes in(machine, true);
  const std::uint64_t capacity = machine.tiers[0].capacity_bytes;
  double before_us = 0;
  b->step_us = b->compute_us;
  for (std::size_t op = 0; op < trace.ops.size(); ++op) {
    before_us += trace.ops[op].time_us;
    if (load.needed[op] <= capacity) continue;
    const auto excess = static_cast<double>(load.needed[op] - capacity);
    const double out_us = out.time_us(excess);
    const double in_us = in.time_us(excess);
    b->transfer_us = std::max(b->transfer_us, out_us + in_us);
    b->step_us =
        std::max(b->step_us, std::max(before_us, out_us) + std::max(b->compute_us - before_us, in_us));
  }
}

}  // namespace

LowerBounds lower_bounds(const wire::Trace& trace, const Machine& machine) {
  if (has_variants(trace)) return lower_bounds(least_costs(trace), machine);
  LowerBounds b;
  const Load load = Profile(trace).load();
  for (std::size_t op = 0; op < trace.ops.size(); ++op) {
    b.compute_us += trace.ops[op].time_us;
    b.max_live_bytes = std::max(b.max_live_bytes, load.live[op]);
    const std::uint64_t spared = machine.one_bit_codec() == 0 ? 0 : spared_by_bits(trace, trace.ops[op]);
    b.largest_op_bytes = std::max(b.largest_op_bytes, load.named[op] - spared);
  }
  b.critical_path_us = critical_path_us(trace);
  bound_transfers(trace, machine, load, &b);
  return b;
}

}  // namespace terrace::planner
