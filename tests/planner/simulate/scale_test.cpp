// Plans for long steps: eight times the operations may take a policy some eight times the work, not 64 times.
//
// Work is measured as processor time of this process, and only against the same policy's own on a shorter
// step: neither the machine's speed nor what else runs on it decides.
#include <algorithm>
#include <catch2/catch.hpp>
#include <ctime>

#include "tests/planner/simulate/random_plans.h"

namespace terrace::planner {
namespace {

using namespace test;

constexpr std::uint32_t few_layers = 2000;  // 4,000 operations
constexpr std::uint32_t times_as_many = 8;
constexpr double most_growth = 32;      // n log n: about 10; quadratic: 64
constexpr double least_seconds = 0.01;  // below it a clock says little

// Layers of unequal size forward and back; each has a weight, an activation of which half is zeros, and the
// gradients of both.
wire::Trace long_step(std::uint32_t layers) {
  Random random(1);
  std::vector<wire::TraceTensor> tensors;
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    const std::uint64_t weight = 100 + random() % 1000, activation = 1000 + random() % 10000;
    for (const std::uint64_t bytes : {weight, activation, activation, weight})
      tensors.push_back(tensor(bytes, tensors.size() % 4 == 0));
    tensors[tensors.size() - 3].sparsity = 0.5;
    tensors[tensors.size() - 2].kind = tensors.back().kind = wire::TensorKind::gradient;
  }
  std::vector<wire::TraceOp> ops;
  for (std::uint32_t l = 0; l < layers; ++l) {
    ops.push_back(op(3000, l > 0 ? std::vector{4 * l, 4 * l - 3} : std::vector{4 * l}, {4 * l + 1}));
    ops.back().name = "conv";
  }
  for (std::uint32_t l = layers; l-- > 0;) {
    ops.push_back(op(6000, {4 * l, 4 * l + 1}, {4 * l + 2, 4 * l + 3}));
    if (l + 1 < layers) ops.back().inputs.push_back(4 * l + 6);
  }
  return step(std::move(tensors), std::move(ops));
}

Machine machine_for(const wire::Trace& trace) {
  Machine machine = two_tiers(lower_bounds(trace, two_tiers(1)).max_live_bytes * 6 / 10);
  machine.tiers.push_back({"ssd", unlimited_bytes});
  machine.links.push_back({"ssd", 0.5e6, 0.5e6, 0, 0});
  machine.routes.push_back({2, {0, 1}});
  machine.codecs = {{"zeros", 100e6, 100e6, 1, true, 1 / 32.}};
  return machine;
}

// The least of three runs.
double plan_seconds(const SwapPolicy& policy, const wire::Trace& trace, const Machine& machine) {
  double least = 1e9;
  for (int run = 0; run < 3; ++run) {
    const std::clock_t begin = std::clock();
    const auto schedule = policy.plan(trace, machine);
    least = std::min(least, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  return least;
}

}  // namespace

TEST_CASE("No policy's plan takes quadratic work") {
  const wire::Trace few = long_step(few_layers), many = long_step(few_layers * times_as_many);
  const Machine small = machine_for(few), large = machine_for(many);
  for (const SwapPolicy& policy : published_swap_policies()) {
    const double before = std::max(plan_seconds(policy, few, small), least_seconds / times_as_many);
    const double after = plan_seconds(policy, many, large);
    INFO(policy.name << ": " << before << " s, then " << after << " s");
    CHECK((after < least_seconds || after < most_growth * before));
  }
}

}  // namespace terrace::planner
