// SuperNeurons' plans: what is made again, and by which of its two rules.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/planner/simulate/random_plans.h"
#include "tests/planner/simulate/simulated.h"

namespace terrace::planner {
namespace {

using namespace test;
using wire::Action;
using wire::ScheduleEntry;

// Layers by name, "C" a convolution, "r" a cheap one: each reads the activation before it and makes the next
// one of 100 bytes. Then the loss, and each layer's backward pass, which reads its input and the gradient.
wire::Trace network(const std::string& layers) {
  const auto n = static_cast<std::uint32_t>(layers.size());
  std::vector<wire::TraceTensor> tensors(2 * n + 2, tensor(100));
  for (std::uint32_t i = n + 1; i < 2 * n + 2; ++i) tensors[i].kind = wire::TensorKind::gradient;
  const auto named = [&](std::uint32_t i, const char* pass) {
    return (layers[i] == 'C' ? "Conv" : "ReLU") + std::string(pass);
  };
  std::vector<wire::TraceOp> ops;
  for (std::uint32_t i = 0; i < n; ++i) {
    ops.push_back(op(layers[i] == 'C' ? 100 : 10, {i}, {i + 1}));
    ops.back().name = named(i, "Forward");
  }
  ops.push_back(op(10, {n}, {2 * n + 1}));
  for (std::uint32_t i = n; i-- > 0;) {
    ops.push_back(op(layers[i] == 'C' ? 200 : 10, {i, n + 2 + i}, {n + 1 + i}));
    ops.back().name = named(i, "Backward");
  }
  return step(tensors, ops);
}

SwapPlan planned(const wire::Trace& trace, const Machine& machine) {
  const auto plan = swap_policy("superneurons")->plan(trace, machine);
  INFO(plan.error);
  REQUIRE(plan);
  return *plan;
}

using Placed = std::vector<std::pair<std::uint32_t, std::uint32_t>>;  // (position, tensor)

Placed entries_of(const wire::Schedule& schedule, Action action) {
  Placed found;
  for (const ScheduleEntry& e : schedule.entries)
    if (e.action == action) found.emplace_back(e.at, e.object);
  return found;
}

}  // namespace

TEST_CASE("SuperNeurons makes cheap layers' results again, and fetches checkpoints one ahead") {
  const wire::Trace t = network("CrCrCr");  // backward of layer i is operation 12 - i
  const SwapPlan plan = planned(t, two_tiers(700));
  CHECK(plan.victims == Victims::lru);
  CHECK(entries_of(plan, Action::drop) == Placed{{3, 2}, {5, 4}});
  CHECK(entries_of(plan, Action::redo) == Placed{{8, 4}, {10, 2}});
  CHECK(entries_of(plan, Action::out).empty());
  // Of the checkpoints' results 5, 3 and 1 and of the input.
  CHECK(entries_of(plan, Action::in) == Placed{{6, 5}, {8, 3}, {10, 0}, {10, 1}});
  CHECK(repeated_us(t, two_tiers(700), plan) < never_us);
}

TEST_CASE("SuperNeurons makes a small segment again at once, and a large one tensor by tensor") {
  const auto redone = [](const std::string& layers) {
    return entries_of(planned(network(layers), two_tiers(800)), Action::redo);
  };
  // The largest layer takes three tensors of 100. Backward of layer i is operation 2 n - i.
  CHECK(redone("Crrrr") == Placed{{6, 2}, {6, 3}, {6, 4}});
  CHECK(redone("Crrrrr") ==
        Placed{{7, 2}, {7, 3}, {7, 4}, {7, 5}, {8, 2}, {8, 3}, {8, 4}, {9, 2}, {9, 3}, {10, 2}});
  const wire::Trace t = network("Crrrrr");
  CHECK(repeated_us(t, two_tiers(500), planned(t, two_tiers(500))) < never_us);
}

TEST_CASE("SuperNeurons keeps what cannot be made again") {
  wire::Trace t = network("CrCr");
  t.ops[1].recomputable = false;
  const SwapPlan plan = planned(t, two_tiers(600));
  CHECK(entries_of(plan, Action::drop).empty());
  CHECK(entries_of(plan, Action::redo).empty());
}

TEST_CASE("SuperNeurons keeps what only a long chain would make again") {
  const wire::Trace t = network("C" + std::string(45, 'r'));
  const SwapPlan plan = planned(t, two_tiers(3000));
  const std::size_t dropped = entries_of(plan, Action::drop).size();
  CHECK(dropped > 0);
  CHECK(repeated_us(t, two_tiers(3000), plan) < never_us);
}

TEST_CASE("SuperNeurons runs no checkpoint again: what needs one stays") {
  wire::Trace t = network("Crr");
  CHECK(entries_of(planned(t, two_tiers(800)), Action::redo) == Placed{{4, 2}});
  t.ops[5].inputs = {6};  // nothing keeps what the convolution made
  CHECK(entries_of(planned(t, two_tiers(800)), Action::redo).empty());
}

TEST_CASE("Where no name tells a checkpoint, what takes longer than the mean is one") {
  wire::Trace t = network("CrCrCr");
  const SwapPlan named = planned(t, two_tiers(700));
  for (wire::TraceOp& o : t.ops) o.name = "layer";
  const SwapPlan unnamed = planned(t, two_tiers(700));
  CHECK(entries_of(unnamed, Action::redo) == entries_of(named, Action::redo));
  CHECK(entries_of(unnamed, Action::in) == entries_of(named, Action::in));
}

TEST_CASE("SuperNeurons needs a backward pass") {
  wire::Trace t = network("Cr");
  for (wire::TraceTensor& tensor : t.tensors) tensor.kind = wire::TensorKind::activation;
  CHECK_THAT(swap_policy("superneurons")->plan(t, two_tiers(600)).error, Catch::Contains("no backward pass"));
}

}  // namespace terrace::planner
