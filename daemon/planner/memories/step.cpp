#include "daemon/planner/memories/step.h"

#include <algorithm>

namespace terrace::planner::memories {
namespace {

constexpr double us_per_s = 1e6;
constexpr std::uint64_t most_fast_bytes = std::uint64_t{1} << 62;  // what load_tree.h can count with

// Bytes per microsecond; a memory without a rate of its own takes no time beyond the trace's.
double us_of(std::uint64_t bytes, double bytes_per_second) {
  return bytes_per_second > 0 ? static_cast<double>(bytes) / bytes_per_second * us_per_s : 0;
}

double access_us(const Access& access, std::uint64_t bytes, bool reads, bool writes) {
  double us = 0;
  if (reads) us += us_of(bytes, access.read_bytes_per_second) + access.read_latency_us;
  if (writes) us += us_of(bytes, access.write_bytes_per_second) + access.write_latency_us;
  return us;
}

class Builder {
 public:
  Builder(const wire::Trace& trace, const Machine& machine)
      : trace_(trace), fast_(machine.tiers[0].access), slow_(machine.tiers[1].access) {
    step_.fast_bytes = std::min(machine.tiers[0].capacity_bytes, most_fast_bytes);
  }

  Step take() {
    for (const wire::TraceTensor& t : trace_.tensors)
      step_.tensors.push_back({t.bytes, 0, 0, t.persistent, {}});
    for (std::uint32_t op = 0; op < trace_.ops.size(); ++op) add(op);
    for (Tensor& t : step_.tensors) live(&t);
    return std::move(step_);
  }

 private:
  const wire::Trace& trace_;
  const Access &fast_, &slow_;
  Step step_;
  double fast_us_ = 0;  // of the operation's accesses

  void add(std::uint32_t op) {
    const wire::TraceOp& from = trace_.ops[op];
    step_.ops.push_back({from.time_us, 0, {}});
    step_.compute_us += from.time_us;
    fast_us_ = 0;
    for (const std::uint32_t t : from.inputs) use(op, t, true, false);
    for (const std::uint32_t t : from.outputs) use(op, t, false, true);
    if (from.workspace_bytes > 0) {
      const auto workspace = static_cast<std::uint32_t>(step_.tensors.size());
      step_.tensors.push_back({from.workspace_bytes, op, op, false, {}});
      use(op, workspace, true, true);
    }
    for (const std::uint32_t u : step_.ops[op].uses) price(&step_.uses[u]);
    step_.ops[op].hidden_us = std::max(0.0, from.time_us - fast_us_);
  }

  void use(std::uint32_t op, std::uint32_t tensor, bool reads, bool writes) {
    Tensor& t = step_.tensors[tensor];
    if (t.bytes == 0) return;
    if (t.uses.empty() || step_.uses[t.uses.back()].op != op) {
      t.uses.push_back(static_cast<std::uint32_t>(step_.uses.size()));
      step_.ops[op].uses.push_back(t.uses.back());
      step_.uses.push_back({op, tensor, false, false, 0, 0, 0});
    }
    Use& u = step_.uses[t.uses.back()];
    u.reads |= reads;
    u.writes |= writes;
  }

  void price(Use* u) {
    const std::uint64_t bytes = step_.tensors[u->tensor].bytes;
    const double fast_us = access_us(fast_, bytes, u->reads, u->writes);
    fast_us_ += fast_us;
    u->extra_us = std::max(0.0, access_us(slow_, bytes, u->reads, u->writes) - fast_us);
    if (u->reads) u->slow_read_us = us_of(bytes, slow_.read_bytes_per_second);
    if (u->writes) u->slow_write_us = us_of(bytes, slow_.write_bytes_per_second);
  }

  void live(Tensor* t) const {
    if (t->persistent) {
      t->first = 0;
      t->last = static_cast<std::uint32_t>(step_.ops.size()) - 1;
    } else if (!t->uses.empty()) {
      t->first = step_.uses[t->uses.front()].op;
      t->last = step_.uses[t->uses.back()].op;
    }
  }
};

// Of both memories and the links between.
void price_moves(const Machine& machine, const Route& route, Step* step) {
  const Access &fast = machine.tiers[0].access, &slow = machine.tiers[1].access;
  const auto lower = [](double* rate, double limit) {
    if (limit > 0) *rate = std::min(*rate, limit / us_per_s);
  };
  step->in_rate = slow.read_bytes_per_second / us_per_s;
  step->out_rate = slow.write_bytes_per_second / us_per_s;
  lower(&step->in_rate, fast.write_bytes_per_second);
  lower(&step->out_rate, fast.read_bytes_per_second);
  for (const std::uint32_t l : route.links) {
    const Link& link = machine.links[l];
    lower(&step->in_rate, link.in_bytes_per_second);
    lower(&step->out_rate, link.out_bytes_per_second);
    step->in_latency_us += link.in_latency_us;
    step->out_latency_us += link.out_latency_us;
  }
}

}  // namespace

std::vector<std::uint64_t> Step::live_bytes() const {
  std::vector<std::uint64_t> live(ops.size() + 1, 0);
  for (const Tensor& t : tensors) {
    if (!t.persistent && t.uses.empty()) continue;
    live[t.first] += t.bytes;
    live[t.last + 1] -= t.bytes;
  }
  for (std::size_t op = 1; op < live.size(); ++op) live[op] += live[op - 1];
  live.pop_back();
  return live;
}

std::uint64_t Step::peak_bytes() const {
  const std::vector<std::uint64_t> live = live_bytes();
  return live.empty() ? 0 : *std::max_element(live.begin(), live.end());
}

Result<Step> step_on(const wire::Trace& trace, const Machine& machine) {
  if (trace.ops.empty()) return refused<Step>("the trace has no operations: nothing is to be placed");
  if (machine.tiers.size() < 2)
    return refused<Step>("machine " + machine.name + " has one tier: two memories need a second one");
  if (!machine.tiers[1].access.in_place())
    return refused<Step>(
        "tier " + machine.tiers[1].name + " of machine " + machine.name +
        " cannot be used in place: give it read_bytes_per_second and write_bytes_per_second");
  const auto route =
      std::find_if(machine.routes.begin(), machine.routes.end(), [](const Route& r) { return r.tier == 1; });
  if (route == machine.routes.end())
    return refused<Step>("tier " + machine.tiers[1].name + " of machine " + machine.name +
                         " has no route: add one, for what moves between the memories");
  Step step = Builder(trace, machine).take();
  if (step.peak_bytes() > machine.tiers[1].capacity_bytes)
    return refused<Step>("tier " + machine.tiers[1].name + " of machine " + machine.name + " holds " +
                         std::to_string(machine.tiers[1].capacity_bytes) + " bytes, and the step needs " +
                         std::to_string(step.peak_bytes()) + " at once: make it larger");
  price_moves(machine, *route, &step);
  return ok(std::move(step));
}

}  // namespace terrace::planner::memories
