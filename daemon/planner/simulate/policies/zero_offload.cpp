#include "daemon/planner/simulate/policies/zero_offload.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "daemon/planner/schedule_period.h"
#include "daemon/planner/simulate/gaps/gaps.h"
#include "daemon/planner/simulate/program.h"

namespace terrace::planner {
namespace {

using wire::Action;
using wire::TensorKind;

constexpr double no_limit_bytes_per_second = 1e18;  // of the CPU's link in the direction without work

// Which operations update weights.
class Updates {
 public:
  explicit Updates(const wire::Trace& trace)
      : trace_(trace), is_update_(trace.ops.size(), false), made_(trace.tensors.size(), false) {
    std::vector<bool> before(trace.tensors.size(), false);  // named by what is no update
    bool begun = false;
    for (std::size_t op = 0; op < trace.ops.size(); ++op) {
      const wire::TraceOp& o = trace.ops[op];
      // The profiler's releases, of gradients and of what the update made.
      const bool releases = begun && o.outputs.empty() && o.time_us == 0;
      is_update_[op] = names_state(o) || reads_made(o) || releases;
      begun |= is_update_[op];
      for (const auto* list : {&o.inputs, &o.outputs})
        for (const std::uint32_t t : *list)
          if (!is_update_[op]) before[t] = true;
      for (const std::uint32_t t : o.outputs)
        if (is_update_[op] && !trace.tensors[t].persistent && !before[t]) made_[t] = true;
    }
  }

  bool operator[](std::size_t op) const { return is_update_[op]; }
  // By the update, not before.
  bool made(std::uint32_t tensor) const { return made_[tensor]; }

 private:
  const wire::Trace& trace_;
  std::vector<bool> is_update_, made_;

  bool names_state(const wire::TraceOp& op) const {
    const auto state = [&](std::uint32_t t) { return trace_.tensors[t].kind == TensorKind::optimizer; };
    return std::any_of(op.inputs.begin(), op.inputs.end(), state) ||
           std::any_of(op.outputs.begin(), op.outputs.end(), state);
  }
  bool reads_made(const wire::TraceOp& op) const {
    return std::any_of(op.inputs.begin(), op.inputs.end(), [&](std::uint32_t t) { return made_[t]; });
  }
};

// Weights that are updated together, and the gradients for it.
struct Group {
  std::vector<std::uint32_t> gradients, weights;
};

std::uint32_t root_of(std::vector<std::uint32_t>* parent, std::uint32_t t) {
  while ((*parent)[t] != t) t = (*parent)[t] = (*parent)[(*parent)[t]];
  return t;
}

// Tensors that one update names belong together.
std::vector<Group> groups_of(const wire::Trace& trace, const Updates& updates) {
  std::vector<std::uint32_t> parent(trace.tensors.size());
  std::iota(parent.begin(), parent.end(), 0U);
  std::vector<bool> named(trace.tensors.size(), false);
  for (std::size_t op = 0; op < trace.ops.size(); ++op) {
    if (!updates[op] || trace.ops[op].outputs.empty()) continue;
    const std::uint32_t first = root_of(&parent, trace.ops[op].outputs.front());
    for (const auto* list : {&trace.ops[op].inputs, &trace.ops[op].outputs}) {
      for (const std::uint32_t t : *list) {
        named[t] = true;
        parent[root_of(&parent, t)] = root_of(&parent, first);
      }
    }
  }
  std::vector<Group> by_root(trace.tensors.size());
  for (std::uint32_t t = 0; t < trace.tensors.size(); ++t) {
    if (!named[t] || updates.made(t)) continue;
    const wire::TraceTensor& tensor = trace.tensors[t];
    Group& group = by_root[root_of(&parent, t)];
    if (tensor.persistent && tensor.kind == TensorKind::weight) group.weights.push_back(t);
    if (!tensor.persistent) group.gradients.push_back(t);
  }
  std::erase_if(by_root, [](const Group& g) { return g.weights.empty() || g.gradients.empty(); });
  return by_root;
}

class StepMaker {
 public:
  StepMaker(const wire::Trace& trace, const Machine& machine, bool delayed)
      : trace_(trace), delayed_(delayed), updates_(trace), groups_(groups_of(trace, updates_)) {
    made_.machine = machine;
    made_.steps = delayed ? 2 : 1;
  }

  Result<OffloadedStep> make() {
    if (groups_.empty())
      return refused<OffloadedStep>(
          "no operation updates a weight by an optimizer state; profile a step whose optimizer has states");
    if (std::string wrong = add_cpu(); !wrong.empty()) return refused<OffloadedStep>(std::move(wrong));
    add_tensors();
    for (std::uint32_t half = 0; half < made_.steps; ++half) add_passes(half);
    made_.plan.victims = Victims::none;
    static_cast<wire::Schedule&>(made_.plan) =
        sorted_schedule(made_.trace, delayed_ ? "zero_offload_delayed" : "zero_offload", entries_);
    describe(made_.trace, &made_.plan);
    return ok(std::move(made_));
  }

 private:
  static constexpr std::uint32_t left_out = 0xffffffffU;

  const wire::Trace& trace_;
  bool delayed_;
  Updates updates_;
  std::vector<Group> groups_;
  OffloadedStep made_;
  std::uint32_t tier_ = 0;
  std::vector<std::vector<std::uint32_t>> number_;  // by half and tensor: in the new trace
  std::vector<wire::ScheduleEntry> entries_;

  // The route to the CPU's memory; null: no tier with a route has a CPU.
  const Route* cpu_route() const {
    const Machine& machine = made_.machine;
    const auto found = std::find_if(machine.routes.begin(), machine.routes.end(), [&](const Route& r) {
      return machine.tiers[r.tier].update_bytes_per_second > 0;
    });
    return found == machine.routes.end() ? nullptr : &*found;
  }

  void count_cpu_bytes() {
    for (const wire::TraceTensor& t : trace_.tensors)
      if (t.kind == TensorKind::optimizer && t.persistent) made_.cpu_bytes += t.bytes;
    for (const Group& group : groups_)
      for (const std::uint32_t w : group.weights) made_.cpu_bytes += trace_.tensors[w].bytes;
  }

  // A tier of its own behind the links of its memory's. What is wrong, or nothing.
  std::string add_cpu() {
    Machine& machine = made_.machine;
    const Route* const near = cpu_route();
    if (near == nullptr)
      return "no tier with a route has a CPU that updates weights; give such a tier update_bytes_per_second "
             "in the "
             "machine's description";
    count_cpu_bytes();
    Route route = *near;
    made_.tier = route.tier;
    Tier tier = machine.tiers[route.tier];
    const double speed = tier.update_bytes_per_second;
    if (tier.capacity_bytes < made_.cpu_bytes)
      return "tier '" + tier.name + "' has " + std::to_string(tier.capacity_bytes) +
             " bytes, and optimizer states and a copy of the weights need " + std::to_string(made_.cpu_bytes);
    if (tier.capacity_bytes != unlimited_bytes) tier.capacity_bytes -= made_.cpu_bytes;
    tier.name = free_name(machine.tiers);
    route.links.push_back(static_cast<std::uint32_t>(machine.links.size()));
    machine.links.push_back({free_name(machine.links), delayed_ ? no_limit_bytes_per_second : speed,
                             delayed_ ? speed : no_limit_bytes_per_second, 0, 0});
    route.tier = tier_ = static_cast<std::uint32_t>(machine.tiers.size());
    machine.tiers.push_back(tier);
    machine.routes.push_back(route);
    return {};
  }

  // Names of a machine's parts are there once.
  template <class Part>
  static std::string free_name(const std::vector<Part>& parts) {
    std::string name = "cpu";
    while (std::any_of(parts.begin(), parts.end(), [&](const Part& p) { return p.name == name; }))
      name += "'";
    return name;
  }

  // Persistent ones once, the others for each half.
  void add_tensors() {
    made_.trace.name = trace_.name;
    made_.trace.source = trace_.source;
    made_.trace.reads_known = trace_.reads_known;
    std::vector<bool> travels(trace_.tensors.size(), false);
    for (const Group& group : groups_)
      for (const std::uint32_t g : group.gradients) travels[g] = true;
    number_.assign(made_.steps, std::vector<std::uint32_t>(trace_.tensors.size(), left_out));
    for (std::uint32_t half = 0; half < made_.steps; ++half) {
      for (std::uint32_t t = 0; t < trace_.tensors.size(); ++t) {
        const wire::TraceTensor& tensor = trace_.tensors[t];
        if (tensor.kind == TensorKind::optimizer || updates_.made(t)) continue;
        if (half > 0 && tensor.persistent) {
          number_[half][t] = number_[0][t];
          continue;
        }
        number_[half][t] = static_cast<std::uint32_t>(made_.trace.tensors.size());
        made_.trace.tensors.push_back(tensor);
        made_.trace.tensors.back().id = number_[half][t];
        made_.trace.tensors.back().persistent |= travels[t] && delayed_;
      }
    }
  }

  std::uint32_t position() const { return static_cast<std::uint32_t>(made_.trace.ops.size()); }

  void entry(std::uint32_t at, std::uint32_t tensor, Action action) {
    entries_.push_back({at, tensor, action, wire::moves(action) ? tier_ : 0, 0});
  }

  // One training step, and the update that ends with it: its own, or that of the step before.
  void add_passes(std::uint32_t half) {
    const std::uint32_t begin = position();
    std::vector<std::uint32_t> last_named(trace_.tensors.size(), begin);
    for (std::size_t op = 0; op < trace_.ops.size(); ++op) {
      if (updates_[op]) continue;
      wire::TraceOp copy = trace_.ops[op];
      for (auto* list : {&copy.inputs, &copy.outputs, &copy.sign_only}) {
        for (std::uint32_t& t : *list) {
          last_named[t] = position();
          t = number_[half][t];
        }
      }
      made_.trace.ops.push_back(std::move(copy));
    }
    const std::uint32_t applied = delayed_ ? 1 - half : half;
    if (delayed_) clear(half, begin);
    for (const Group& group : groups_)
      for (const std::uint32_t g : group.gradients) entry(last_named[g] + 1, number_[half][g], Action::out);
    // The update begins when the last gradient has come: a gradient's norm is of all of them. An entry that
    // brings back what still waits to leave calls that off, and the CPU would never see that gradient.
    for (const Action action : {Action::wait, Action::in}) {
      for (const Group& group : groups_)
        for (const std::uint32_t g : group.gradients) entry(position(), number_[applied][g], action);
    }
    // All were asked for before the first is taken over.
    for (const Group& group : groups_) take_over(group, applied);
  }

  // The gradients of the half that begins were taken over at the end of the one before. Those of the other
  // half are on their way; before the very first step they still lie on the GPU.
  void clear(std::uint32_t half, std::uint32_t begin) {
    for (const Group& group : groups_) {
      for (const std::uint32_t g : group.gradients) {
        entry(begin, number_[half][g], Action::drop);
        if (half == 0) entry(begin, number_[1][g], Action::out);
      }
    }
  }

  void take_over(const Group& group, std::uint32_t half) {
    wire::TraceOp op;
    op.name = "take over new weights";
    op.recomputable = false;
    for (const std::uint32_t g : group.gradients) op.inputs.push_back(number_[half][g]);
    for (const std::uint32_t w : group.weights) {
      op.inputs.push_back(number_[half][w]);
      op.outputs.push_back(number_[half][w]);
    }
    made_.trace.ops.push_back(std::move(op));
  }
};

}  // namespace

Result<OffloadedStep> offload_update(const wire::Trace& trace, const Machine& machine, bool delayed) {
  std::string wrong = check_machine(machine);
  if (wrong.empty()) wrong = check_trace(trace);
  if (!wrong.empty()) return refused<OffloadedStep>(std::move(wrong));
  return StepMaker(trace, machine, delayed).make();
}

Result<SimulationReport> simulate(const OffloadedStep& step) {
  return simulate(step.trace, step.machine, step.plan,
                  {.victims = step.plan.victims, .steps = 2, .record_timeline = true});
}

SimulationReport for_one_step(const OffloadedStep& step, const SimulationReport& report) {
  SimulationReport one;
  const double share = 1.0 / step.steps;
  one.total_us = report.total_us * share;
  one.stall_rule = report.stall_rule;
  one.compute_us = report.compute_us * share;
  one.stalls = {report.stalls.late_prefetch_us * share, report.stalls.fetch_us * share,
                report.stalls.room_us * share};
  for (std::size_t link = 0; link + 1 < report.links.size(); ++link) {
    const LinkUse& use = report.links[link];
    one.links.push_back(
        {use.in_bytes * share, use.out_bytes * share, use.in_busy_us * share, use.out_busy_us * share});
  }
  one.tier_peak_bytes = report.tier_peak_bytes;
  one.tier_peak_bytes.pop_back();
  one.tier_peak_bytes[step.tier] += report.tier_peak_bytes.back() + step.cpu_bytes;
  return one;
}

std::vector<UpdatePolicy> update_policies() {
  return {
      {"zero_offload", "zero_offload",
       "ZeRO-Offload (ATC'21), section 4.1: gradients, optimizer states and the update with the CPU", false},
      {"zero_offload_delayed", "zero_offload",
       "ZeRO-Offload (ATC'21), section 5.2: the same with the update delayed by one step", true}};
}

}  // namespace terrace::planner
