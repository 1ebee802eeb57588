#include "tests/planner/simulate/random_plans.h"

#include <algorithm>

namespace terrace::planner::test {
namespace {

using wire::Action;

std::uint64_t below(Random& random, std::uint64_t limit) { return random() % limit; }
bool chance(Random& random, std::uint64_t percent) { return random() % 100 < percent; }

struct Life {
  std::uint32_t first = 0xffffffffU, last = 0;
};

std::vector<Life> lives_of(const wire::Trace& trace) {
  std::vector<Life> lives(trace.tensors.size());
  for (std::uint32_t o = 0; o < trace.ops.size(); ++o) {
    for (const auto* list : {&trace.ops[o].inputs, &trace.ops[o].outputs}) {
      for (const std::uint32_t t : *list) {
        lives[t].first = std::min(lives[t].first, o);
        lives[t].last = std::max(lives[t].last, o);
      }
    }
  }
  return lives;
}

double rate(Random& random) { return static_cast<double>(1 + below(random, 50)) * 1e6; }
double latency(Random& random) { return chance(random, 50) ? 0 : static_cast<double>(below(random, 20)) / 4; }

}  // namespace

wire::TraceTensor tensor(std::uint64_t bytes, bool persistent) {
  wire::TraceTensor t;
  t.bytes = bytes;
  t.persistent = persistent;
  t.kind = persistent ? wire::TensorKind::weight : wire::TensorKind::activation;
  return t;
}

wire::Trace step(std::vector<wire::TraceTensor> tensors, std::vector<wire::TraceOp> ops) {
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].id = i;
  return {"step", "a test", std::move(ops), std::move(tensors)};
}

wire::TraceOp op(double time_us, std::vector<std::uint32_t> inputs, std::vector<std::uint32_t> outputs,
                 std::uint64_t workspace_bytes) {
  return {"op", time_us, std::move(inputs), std::move(outputs), workspace_bytes, {}, true};
}

Machine two_tiers(std::uint64_t capacity_bytes) {
  Machine m;
  m.name = "two tiers";
  m.tiers = {{"gpu", capacity_bytes}, {"host", unlimited_bytes}};
  m.links = {{"pcie", 1e6, 1e6, 0, 0}};
  m.routes = {{1, {0}}};
  return m;
}

wire::Trace random_trace(Random& random, std::uint32_t ops, std::uint32_t tensors) {
  std::vector<wire::TraceTensor> all;
  for (std::uint32_t t = 0; t < tensors; ++t) {
    all.push_back(tensor(chance(random, 5) ? 0 : 1 + below(random, 1000), chance(random, 20)));
    if (chance(random, 30)) all.back().sparsity = static_cast<double>(below(random, 101)) / 100;
    all.back().running_statistics = t % 4 == 1;
  }
  std::vector<wire::TraceOp> list;
  for (std::uint32_t o = 0; o < ops; ++o) {
    wire::TraceOp made = op(static_cast<double>(below(random, 400)) / 8, {}, {});
    for (std::uint64_t i = below(random, 4); i > 0; --i) {
      made.inputs.push_back(static_cast<std::uint32_t>(below(random, tensors)));
    }
    for (std::uint64_t i = below(random, 3); i > 0; --i) {
      made.outputs.push_back(static_cast<std::uint32_t>(below(random, tensors)));
    }
    if (chance(random, 20)) made.workspace_bytes = below(random, 500);
    if (chance(random, 20)) made.time_us = 0;
    list.push_back(std::move(made));
  }
  return step(std::move(all), std::move(list));
}

Machine random_machine(Random& random, const wire::Trace& trace) {
  Machine m = two_tiers(0);
  const LowerBounds bounds = lower_bounds(trace, m);
  const std::uint64_t least = std::max<std::uint64_t>(bounds.largest_op_bytes, 1);
  const std::uint64_t most = std::max(bounds.max_live_bytes + bounds.max_live_bytes / 10, least + 1);
  m.tiers[0].capacity_bytes = least + below(random, most - least);
  m.links[0] = {"pcie", rate(random), rate(random), latency(random), latency(random)};
  if (chance(random, 50)) {
    m.tiers[1].capacity_bytes = below(random, bounds.max_live_bytes + 1);
    m.tiers.push_back({"ssd", unlimited_bytes});
    m.links.push_back({"ssd", rate(random), rate(random), latency(random), latency(random)});
    m.routes.push_back({2, {0, 1}});
  }
  m.codecs = {{"half", rate(random), rate(random), 0.5, false, 0},
              {"zeros", rate(random), rate(random), 1, true, 0.03125}};
  return m;
}

wire::Trace random_step(Random& random) {
  const auto tensors = 5 + static_cast<std::uint32_t>(random() % 40);
  const auto ops = 5 + static_cast<std::uint32_t>(random() % 40);
  wire::Trace trace = random_trace(random, ops, tensors);
  for (std::size_t i = 0; i < trace.tensors.size(); i += 3)
    trace.tensors[i].kind = wire::TensorKind::gradient;
  return trace;
}

Machine roomy_machine(Random& random, const wire::Trace& trace) {
  Machine machine = random_machine(random, trace);
  machine.tiers.back().capacity_bytes = unlimited_bytes;
  return machine;
}

Machine with_tier_inside(Machine machine, double link_bytes_per_second) {
  const auto tier = static_cast<std::uint32_t>(machine.tiers.size());
  const auto link = static_cast<std::uint32_t>(machine.links.size());
  Tier inside;
  inside.name = machine.tiers[0].name + ", encoded";
  inside.inside = true;
  machine.tiers.push_back(inside);
  machine.links.push_back({"memory", link_bytes_per_second, link_bytes_per_second, 0, 0});
  machine.routes.push_back({tier, {link}});
  return machine;
}

wire::Schedule random_schedule(Random& random, const wire::Trace& trace, const Machine& machine,
                               std::uint32_t entries) {
  const std::vector<Life> lives = lives_of(trace);
  wire::Schedule schedule{trace.name, "random", {}};
  const std::uint64_t n = trace.ops.size();
  for (std::uint32_t i = 0; i < entries; ++i) {
    wire::ScheduleEntry e;
    e.object = static_cast<std::uint32_t>(below(random, trace.tensors.size()));
    const bool persistent = trace.tensors[e.object].persistent;
    const Life life = lives[e.object];
    if (!persistent && (life.first >= life.last)) continue;
    e.at = static_cast<std::uint32_t>(persistent ? below(random, n + 1)
                                                 : life.first + 1 + below(random, life.last - life.first));
    e.tier = 1 + static_cast<std::uint32_t>(below(random, machine.routes.size()));
    e.action = chance(random, 50) ? Action::out : Action::in;
    if (chance(random, 10)) e.action = chance(random, 50) ? Action::drop : Action::redo;
    const bool needs_codec = machine.is_inside(e.tier);
    if (e.action == Action::out && (chance(random, 20) || needs_codec)) e.codec = chance(random, 50) ? 1 : 2;
    schedule.entries.push_back(e);
    if (chance(random, 5)) schedule.entries.push_back({e.at, e.object, Action::wait, 0, {}});
  }
  std::stable_sort(schedule.entries.begin(), schedule.entries.end(),
                   [](const auto& a, const auto& b) { return a.at < b.at; });
  return schedule;
}

}  // namespace terrace::planner::test
