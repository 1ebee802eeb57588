// Batch normalisation and its running statistics: what is made again, what a chain of it costs, and how a
// trace says which tensors they are.
#include <algorithm>
#include <catch2/catch.hpp>

#include "daemon/planner/running_statistics.h"
#include "daemon/planner/simulate/gaps/dropping.h"
#include "daemon/planner/trace_json.h"
#include "tests/planner/simulate/random_plans.h"
#include "tests/planner/simulate/simulated.h"

namespace terrace::planner {
namespace {

using namespace test;
using Catch::Matchers::Contains;
using wire::Action;

constexpr std::uint32_t input = 0, statistics = 1, output = 2, loss = 3;

// Operation 1 normalises, 4 reads what it made.
wire::Trace normalised(bool says_statistics = true) {
  wire::Trace t = step({tensor(100), tensor(4, true), tensor(100), tensor(10)},
                       {op(10, {}, {input}), op(20, {input, statistics}, {output, statistics}), op(5, {}, {}),
                        op(5, {}, {}), op(10, {input, output}, {loss})});
  t.tensors[statistics].running_statistics = says_statistics;
  return t;
}

const std::vector<wire::ScheduleEntry> made_again = {{2, output, Action::drop, 0, {}},
                                                     {4, output, Action::redo, 0, {}}};

SimulationReport repeated(const wire::Trace& trace, std::vector<wire::ScheduleEntry> entries) {
  SimulationOptions two_steps;
  two_steps.steps = 2;
  return simulated(trace, two_tiers(1000), std::move(entries), two_steps);
}

std::string refusal(const wire::Trace& trace, const std::vector<wire::ScheduleEntry>& entries) {
  const auto report = simulate(trace, two_tiers(1000), {"", "", entries});
  CHECK_FALSE(report);
  return report.error;
}

std::string trace_text(const std::string& op_name, const std::string& statistics_fields) {
  return R"({"format":"terrace-trace","version":1,"name":"n","source":"s","ops":[
{"name":"conv","time_us":1,"inputs":[],"outputs":[1]},
{"name":")" +
         op_name + R"(","time_us":1,"inputs":[1,2],"outputs":[3,2]},
{"name":"relu","time_us":1,"inputs":[3],"outputs":[3]}],"tensors":[
{"id":1,"bytes":6400},{"id":2,"bytes":64,"persistent":true)" +
         statistics_fields + R"(},{"id":3,"bytes":6400}]})";
}

bool are_statistics(const std::string& text) {
  const auto trace = parse_trace(text);
  INFO(trace.error);
  REQUIRE(trace);
  CHECK_FALSE(trace->tensors[0].running_statistics);
  CHECK_FALSE(trace->tensors[2].running_statistics);
  const auto again = parse_trace(trace_json(*trace));
  REQUIRE(again);
  CHECK(again->tensors[1].running_statistics == trace->tensors[1].running_statistics);
  return trace->tensors[1].running_statistics;
}

}  // namespace

TEST_CASE("Batch normalisation is made again, and its statistics stay as they are") {
  const SimulationReport r = repeated(normalised(), made_again);
  CHECK(r.recompute_us == 20);
  CHECK(r.total_us == 70);
  CHECK_THAT(refusal(normalised(false), made_again), Contains("updates tensor 1 in place"));
}

TEST_CASE("A repeated run does not wait for running statistics that lie elsewhere") {
  std::vector<wire::ScheduleEntry> entries = made_again;
  entries.insert(entries.begin(), {2, statistics, Action::out, 1, {}});
  entries.push_back({5, statistics, Action::in, 1, {}});
  const SimulationReport r = repeated(normalised(), entries);
  CHECK(r.recompute_us == 20);
  for (const Transfer& t : r.transfers) CHECK_FALSE(t.on_demand);
}

TEST_CASE("A repeated run has no memory for running statistics, but for what else it makes") {
  wire::Trace t = normalised();
  t.tensors.push_back(tensor(50));  // saved for the backward pass, dead soon
  t.tensors.back().id = 4;
  t.ops[1].outputs.push_back(4);
  const SimulationReport r = repeated(t, made_again);
  std::uint64_t most = 0;
  for (const MemorySample& s : r.memory)
    if (s.time_us >= 40 && s.time_us < 60) most = std::max(most, s.tier_bytes[0]);
  CHECK(most == 100 + 4 + 100 + 50);
}

TEST_CASE("A recomputation that updates what are no running statistics is seen") {
  const SimulationReport r = repeated(normalised(), made_again);
  CHECK_THAT(check_timeline(normalised(false), two_tiers(1000), r), Contains("updates tensor 1 in place"));
  wire::Trace reads = normalised();  // evaluation: read, not updated
  reads.ops[1].outputs = {output};
  reads.ops[2].inputs = reads.ops[2].outputs = {statistics};
  CHECK_THAT(refusal(reads, made_again), Contains("reads tensor 1, which was changed since"));
}

TEST_CASE(
    "Running statistics themselves are made again with all of their updates, where the step makes them") {
  const std::vector<wire::ScheduleEntry> entries = {{2, statistics, Action::drop, 0, {}},
                                                    {4, statistics, Action::redo, 0, {}}};
  CHECK_THAT(refusal(normalised(), entries), Contains("whose content no operation before it made"));
  wire::Trace t = normalised();
  t.tensors[statistics].persistent = false;
  t.ops[0].outputs.push_back(statistics);
  t.ops[4].inputs.push_back(statistics);
  const SimulationReport r = repeated(t, entries);
  CHECK(r.recompute_us == 30);  // with operation 0, which made them
}

TEST_CASE("A chain rests on what its operations read, not on running statistics") {
  const wire::Trace t = normalised();
  const Lineage lineage(t);
  CHECK(lineage.rests_on({output, 1, 4, false}) == std::vector<std::uint32_t>{input});
  CHECK(lineage.price_us({output, 1, 4, false}) == 20);
}

TEST_CASE("Running statistics that are dropped or elsewhere make no chain longer or dearer") {
  wire::Trace t = normalised();
  t.tensors[statistics].persistent = false;
  t.ops[0].outputs.push_back(statistics);
  t.ops.push_back(op(1, {statistics}, {loss}));
  const Gap result{output, 1, 4, false}, beside{statistics, 1, 5, false};
  Lineage lineage(t);
  lineage.drop(beside);
  CHECK(lineage.price_us(result) == 20);
  CHECK(lineage.again_at(4, {result}).size() == 1);
  lineage.keep(beside);
  lineage.move(beside, 500);
  CHECK(lineage.price_us(result) == 20);
}

TEST_CASE("What many chains rest on costs what it makes dearer") {
  // A takes 100; B and C are made of it in 1 each. They are read in this order: B, C, A.
  const wire::Trace t = step({tensor(100), tensor(100), tensor(100), tensor(1)},
                             {op(100, {}, {0}), op(1, {0}, {1}), op(1, {0}, {2}), op(5, {}, {3}),
                              op(5, {1}, {3}), op(5, {2}, {3}), op(5, {0}, {3})});
  const Gap a{0, 2, 6, false}, b{1, 1, 4, false}, c{2, 2, 5, false};
  Lineage lineage(t);
  Dropping dropping(lineage, t.tensors.size());
  CHECK(lineage.rests_on(b) == std::vector<std::uint32_t>{0});
  CHECK_FALSE(dropping.drop(b, 0.5));
  CHECK(dropping.drop(b, 1));
  CHECK(dropping.drop(c, 1));
  CHECK_FALSE(dropping.drop(a, 299));  // 100 for itself, and for each of the chains of B and C
  CHECK(lineage.price_us(b) == 1);
  CHECK(dropping.drop(a, 300));
  CHECK(lineage.price_us(b) == 101);
  CHECK(lineage.rests_on(b).empty());
}

TEST_CASE("A chain that has become longer is priced as it is now") {
  // X takes 1000, A is made of it in 100, B of that in 1. They are read in this order: B, A, X.
  const wire::Trace t = step({tensor(100), tensor(100), tensor(100), tensor(1)},
                             {op(1000, {}, {0}), op(100, {0}, {1}), op(1, {1}, {2}), op(5, {}, {3}),
                              op(5, {2}, {3}), op(5, {1}, {3}), op(5, {0}, {3})});
  Lineage lineage(t);
  Dropping dropping(lineage, t.tensors.size());
  REQUIRE(dropping.drop({2, 2, 4, false}, 1));
  REQUIRE(dropping.drop({1, 2, 5, false}, 200));
  const Gap x{0, 1, 6, false};
  CHECK_FALSE(dropping.drop(x, 2999));  // for itself, for A's chain, and for B's behind it
  CHECK(dropping.drop(x, 3000));
}

TEST_CASE("A trace says which tensors are running statistics, or its operations' names do") {
  CHECK(are_statistics(trace_text("BatchNorm2d_Forward/L1", "")));
  CHECK(are_statistics(trace_text("aten::native_batch_norm", "")));
  CHECK(are_statistics(trace_text("normalise", R"(,"running_statistics":true)")));
  CHECK_FALSE(are_statistics(trace_text("normalise", "")));
  CHECK_FALSE(are_statistics(trace_text("BatchNorm2d_Forward/L1", R"(,"running_statistics":false)")));
  CHECK_FALSE(are_statistics(trace_text("BatchNorm2d_Forward/L1", R"(,"kind":"weight")")));
  CHECK_FALSE(are_statistics(trace_text("BatchNorm2d_Forward/L1", R"(,"kind":"optimizer")")));
  CHECK_THAT(parse_trace(trace_text("x", R"(,"running_statistics":1)")).error,
             Contains("running_statistics"));
}

TEST_CASE("What another operation writes, too, or what is large, is not likely to be running statistics") {
  auto trace = parse_trace(trace_text("batch_norm", ""));
  REQUIRE(trace);
  CHECK(likely_running_statistics(*trace) == std::vector<bool>{false, true, false});
  trace->tensors[1].bytes = 401;  // more than a sixteenth
  CHECK(likely_running_statistics(*trace) == std::vector<bool>{false, false, false});
  trace->tensors[1].bytes = 400;
  CHECK(likely_running_statistics(*trace) == std::vector<bool>{false, true, false});
  trace->tensors[1].persistent = false;
  CHECK(likely_running_statistics(*trace) == std::vector<bool>{false, false, false});
  trace->tensors[1].persistent = true;
  trace->ops[2].outputs.push_back(1);
  CHECK(likely_running_statistics(*trace) == std::vector<bool>{false, false, false});
  trace->ops[2].outputs.pop_back();
  trace->ops[1].inputs = {0};  // written whole: whoever reads it reads what this operation made
  CHECK(likely_running_statistics(*trace) == std::vector<bool>{false, false, false});
}

TEST_CASE("The joint search makes what batch normalisation gives again, where the link is slow") {
  // Five layers: a convolution, whose result the backward pass reads, and a normalisation.
  constexpr std::uint32_t layers = 5, per_layer = 3;
  std::vector<wire::TraceTensor> tensors;
  std::vector<wire::TraceOp> ops;
  for (std::uint32_t i = 0; i < layers; ++i) {
    const std::uint32_t x = i * per_layer;
    tensors.insert(tensors.end(), {tensor(1000), tensor(4, true), tensor(1000)});
    tensors[x + 1].running_statistics = true;
    ops.push_back(op(100, i == 0 ? std::vector<std::uint32_t>{} : std::vector<std::uint32_t>{x - 1}, {x}));
    ops.push_back(op(10, {x, x + 1}, {x + 2, x + 1}));
  }
  const auto gradient = static_cast<std::uint32_t>(tensors.size());
  tensors.push_back(tensor(10));
  tensors.back().kind = wire::TensorKind::gradient;
  ops.push_back(op(100, {gradient - 1}, {gradient}));
  for (std::uint32_t i = layers; i-- > 0;)
    ops.push_back(op(100, {i * per_layer, i * per_layer + 2, gradient}, {gradient}));
  wire::Trace t = step(std::move(tensors), std::move(ops));
  const Machine m = two_tiers(7100);
  const auto with = swap_policy("joint")->plan(t, m);
  REQUIRE(with);
  for (wire::TraceTensor& tensor : t.tensors) tensor.running_statistics = false;
  const auto without = swap_policy("joint")->plan(t, m);
  REQUIRE(without);
  CHECK(repeated_us(t, m, *without) > 1.2 * 1150);
  for (std::uint32_t i = 0; i < layers; ++i) t.tensors[i * per_layer + 1].running_statistics = true;
  CHECK(repeated_us(t, m, *with) < 1.05 * 1150);
}

}  // namespace terrace::planner
