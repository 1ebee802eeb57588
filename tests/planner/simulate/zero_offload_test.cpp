// ZeRO-Offload on a step of two weights whose times can be added up by hand, and what it takes out of a step.
#include "daemon/planner/simulate/policies/zero_offload.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/planner/simulate/random_plans.h"

namespace terrace::planner {
namespace {

using wire::TensorKind;

constexpr bool in_turn = false, delayed = true;

enum Tensor : std::uint32_t {
  weight_1,
  weight_2,
  state_1,
  state_2,
  activation,
  gradient_1,
  gradient_2,
  root
};

// Two layers of 10 us forward and back, 100 bytes a weight, 200 its states, updated by PyTorch's way: the
// root of the state is a tensor of its own, and the gradients are released at the end.
wire::Trace two_layers() {
  wire::Trace trace;
  trace.name = "two layers";
  trace.source = "by hand";
  trace.tensors = {
      {1, 100, TensorKind::weight, true, {}, "", {}},     {2, 100, TensorKind::weight, true, {}, "", {}},
      {3, 200, TensorKind::optimizer, true, {}, "", {}},  {4, 200, TensorKind::optimizer, true, {}, "", {}},
      {5, 50, TensorKind::activation, false, {}, "", {}}, {6, 100, TensorKind::gradient, false, {}, "", {}},
      {7, 100, TensorKind::gradient, false, {}, "", {}},  {8, 100, TensorKind::other, false, {}, "", {}}};
  const auto add = [&trace](const char* name, double time_us, std::vector<std::uint32_t> inputs,
                            std::vector<std::uint32_t> outputs) {
    wire::TraceOp& op = trace.ops.emplace_back();
    op.name = name;
    op.time_us = time_us;
    op.inputs = std::move(inputs);
    op.outputs = std::move(outputs);
  };
  add("layer 1", 10, {weight_1}, {activation});
  add("layer 2", 10, {weight_2, activation}, {});
  add("back 2", 10, {weight_2, activation}, {gradient_2});
  add("back 1", 10, {weight_1, activation}, {gradient_1});
  add("adam", 4, {gradient_1, weight_1, state_1}, {weight_1, state_1});
  add("root", 1, {state_2}, {root});
  add("add eps", 1, {root}, {root});
  add("adam", 4, {gradient_2, weight_2, state_2, root}, {weight_2, state_2});
  add("release", 0, {gradient_1, gradient_2}, {});
  return trace;
}

// 100 bytes a microsecond each way; the CPU updates 50.
Machine with_dram(std::uint64_t gpu_bytes, std::uint64_t dram_bytes = unlimited_bytes,
                  double update_bytes_per_second = 50e6) {
  return {"small",
          {{"gpu", gpu_bytes}, {"dram", dram_bytes, {}, update_bytes_per_second}},
          {{"pcie", 1e8, 1e8, 0, 0}},
          {{1, {0}}},
          {}};
}

// A weight with its gradient, made in 2 us at the end of the step, and its update. Returns the update's time.
double add_layer(test::Random& random, wire::Trace* trace) {
  const auto bytes = random() % 200 + 1;
  const auto first = static_cast<std::uint32_t>(trace->tensors.size());
  for (const TensorKind kind : {TensorKind::weight, TensorKind::optimizer, TensorKind::gradient}) {
    wire::TraceTensor& t =
        trace->tensors.emplace_back(test::tensor(kind == TensorKind::optimizer ? 2 * bytes : bytes));
    t.kind = kind;
    t.id = trace->tensors.size() - 1;
    t.persistent = kind != TensorKind::gradient;
  }
  const auto place = std::find_if(trace->ops.begin(), trace->ops.end(),
                                  [](const wire::TraceOp& op) { return op.name == "update"; });
  trace->ops.insert(place, test::op(2, {first}, {first + 2}));
  trace->ops.push_back(test::op(7, {first, first + 1, first + 2}, {first, first + 1}));
  trace->ops.back().name = "update";
  return trace->ops.back().time_us;
}

OffloadedStep offloaded(const wire::Trace& trace, const Machine& machine, bool is_delayed) {
  auto step = offload_update(trace, machine, is_delayed);
  INFO(step.error);
  REQUIRE(step);
  return std::move(*step);
}

SimulationReport ran(const OffloadedStep& step) {
  const auto report = simulate(step);
  INFO(report.error);
  REQUIRE(report);
  CHECK_THAT(check_timeline(step.trace, step.machine, *report), Catch::Equals(""));
  return *report;
}

TEST_CASE("The update leaves the GPU's step with all that belongs to it alone") {
  const OffloadedStep step = offloaded(two_layers(), with_dram(1000), in_turn);
  CHECK(step.trace.ops.size() == 4 + 2);
  CHECK(step.trace.ops[4].name == "take over new weights");
  CHECK(step.trace.tensors.size() == 5);  // neither states nor the root
  CHECK(step.cpu_bytes == 400 + 200);
  CHECK(step.machine.tiers.back().name == "cpu");
  CHECK(step.tier == 1);
}

TEST_CASE("In turn the GPU waits for the last gradient, the CPU's work, and the weights") {
  const SimulationReport report = ran(offloaded(two_layers(), with_dram(1000), in_turn));
  // 40 us; the last gradient leaves in 1; both weights come at 50 bytes a microsecond.
  CHECK(report.total_us == Approx(40 + 1 + 2 + 2));
}

TEST_CASE("In turn every gradient reaches the CPU before the first weight comes back") {
  // Of a link of 2 bytes a microsecond: 100 us for all but the first 10 us of gradient 2, then gradient 1.
  Machine slow = with_dram(1000);
  slow.links[0] = {"pcie", 2e6, 2e6, 0, 0};
  const OffloadedStep step = offloaded(two_layers(), slow, in_turn);
  const SimulationReport report = ran(step);
  CHECK(report.total_us == Approx(30 + 50 + 50 + 50 + 50));
  double last_out_us = 0, first_in_us = 1e9;
  std::size_t outs = 0;
  for (const Transfer& t : report.transfers) {
    outs += t.in ? 0 : 1;
    if (t.in) first_in_us = std::min(first_in_us, t.start_us);
    if (!t.in) last_out_us = std::max(last_out_us, t.end_us);
  }
  CHECK(outs == 2);
  CHECK(first_in_us >= last_out_us);
}

TEST_CASE("With the delayed update the CPU's work hides behind the next step") {
  const OffloadedStep step = offloaded(two_layers(), with_dram(1000), delayed);
  CHECK(step.steps == 2);
  const SimulationReport both = ran(step);
  // Twice 40 us and the weights at the link's speed.
  CHECK(both.total_us == Approx(2 * (40 + 1 + 1)));
  CHECK(for_one_step(step, both).total_us == Approx(40 + 1 + 1));
  // 2.5 bytes a microsecond: two weights take 80 us, and set the pace.
  const OffloadedStep slow = offloaded(two_layers(), with_dram(1000, unlimited_bytes, 2.5e6), delayed);
  const double slow_us = for_one_step(slow, ran(slow)).total_us;
  CHECK(slow_us >= 80 - 1e-6);
  CHECK(slow_us < 40 + 80);
}

TEST_CASE("Gradients take room only until they have left, and the CPU's memory is told") {
  const OffloadedStep step = offloaded(two_layers(), with_dram(350), in_turn);
  const SimulationReport report = ran(step);
  CHECK(report.tier_peak_bytes[0] == 350);  // weights, activation, one gradient
  CHECK(!simulate(two_layers(), with_dram(849), {"two layers", "none", {}}));
  const SimulationReport one = for_one_step(step, report);
  REQUIRE(one.tier_peak_bytes.size() == 2);
  CHECK(one.tier_peak_bytes[1] == 600 + 200);  // states, copies, both gradients
  REQUIRE(one.links.size() == 1);
  CHECK(one.links[0].out_bytes == 200);
  CHECK(one.links[0].in_bytes == 200);
}

TEST_CASE("States and copies leave gradients what remains of the CPU's memory") {
  CHECK(simulate(offloaded(two_layers(), with_dram(350, 800), in_turn)));
  CHECK_FALSE(simulate(offloaded(two_layers(), with_dram(350, 600), in_turn)));
}

TEST_CASE("The CPU is that of the nearest tier that has one") {
  Machine machine = with_dram(1000, unlimited_bytes, 0);
  machine.tiers.push_back({"far", unlimited_bytes, {}, 50e6});
  machine.links.push_back({"cpu", 1e7, 1e7, 0, 0});  // its name is taken
  machine.routes.push_back({2, {0, 1}});
  const OffloadedStep step = offloaded(two_layers(), machine, in_turn);
  CHECK(step.tier == 2);
  CHECK(step.machine.routes.back().links == std::vector<std::uint32_t>{0, 1, 2});
  CHECK(step.machine.links.back().name == "cpu'");
  CHECK(ran(step).total_us == Approx(40 + 10 + 10 + 10));  // over the slower link
}

TEST_CASE("A step without states, a machine without a CPU, and too little of its memory are refused") {
  wire::Trace bare = two_layers();
  bare.ops.resize(4);
  CHECK_THAT(offload_update(bare, with_dram(1000), in_turn).error, Catch::Contains("optimizer has states"));
  CHECK_THAT(offload_update(two_layers(), with_dram(1000, unlimited_bytes, 0), in_turn).error,
             Catch::Contains("update_bytes_per_second"));
  Machine alone = with_dram(1000);
  alone.routes.clear();
  CHECK_THAT(offload_update(two_layers(), alone, in_turn).error, Catch::Contains("no tier with a route"));
  CHECK_THAT(offload_update(two_layers(), with_dram(1000, 599), in_turn).error, Catch::Contains("need 600"));
  CHECK(offload_update(two_layers(), with_dram(1000, 800), in_turn));
}

TEST_CASE("Random steps with an update pass the judge, and what is computed is the step without it") {
  std::uint32_t ran_of = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    test::Random random(seed);
    wire::Trace t = test::random_step(random);
    const auto layers = static_cast<std::uint32_t>(random() % 4 + 1);
    double update_us = 0, compute_us = 0;
    for (const wire::TraceOp& op : t.ops) compute_us += op.time_us;
    for (std::uint32_t layer = 0; layer < layers; ++layer) update_us += add_layer(random, &t);
    const Machine m = test::roomy_machine(random, t);
    for (const bool is_delayed : {false, true}) {
      Machine with_cpu = m;
      with_cpu.tiers.back().update_bytes_per_second = 1e6;
      const auto step = offload_update(t, with_cpu, is_delayed);
      INFO("seed " << seed << " delayed " << is_delayed << " " << step.error);
      REQUIRE(step);
      const auto report = simulate(*step);
      if (!report) continue;  // the passes alone are too large
      ++ran_of;
      REQUIRE_THAT(check_timeline(step->trace, step->machine, *report), Catch::Equals(""));
      CHECK(for_one_step(*step, *report).compute_us == Approx(compute_us + 2.0 * layers));
      CHECK(update_us > 0);
    }
  }
  CHECK(ran_of > 100);
}

}  // namespace
}  // namespace terrace::planner
