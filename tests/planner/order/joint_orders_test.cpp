// The joint search over orders of operations: where another order wins it is found and told, where none
// promises anything the plan is what it was, and in neither case is it slower than a published policy.
#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>

#include "daemon/planner/order/scheduled.h"
#include "daemon/planner/simulate/joint/joint.h"
#include "daemon/planner/simulate/joint/orders.h"
#include "daemon/planner/variants.h"
#include "tests/planner/simulate/random_plans.h"
#include "tests/planner/simulate/simulated.h"

namespace terrace::planner {
namespace {

using namespace test;

// Forward and backward over n layers, and then every layer's update, which reads its gradient and writes its
// weight and its state.
wire::Trace with_updates_at_the_end(std::uint32_t n) {
  std::vector<wire::TraceTensor> tensors;
  for (std::uint32_t i = 0; i < n; ++i) {
    for (const bool persistent : {false, false, true, true}) tensors.push_back(tensor(100, persistent));
    tensors[4 * i + 1].kind = wire::TensorKind::gradient;
  }
  const auto activation = [](std::uint32_t i) { return 4 * i; };
  const auto gradient = [](std::uint32_t i) { return 4 * i + 1; };
  const auto weight = [](std::uint32_t i) { return 4 * i + 2; };
  const auto state = [](std::uint32_t i) { return 4 * i + 3; };
  std::vector<wire::TraceOp> ops;
  for (std::uint32_t i = 0; i < n; ++i)
    ops.push_back(i == 0 ? op(60, {weight(i)}, {activation(i)})
                         : op(60, {weight(i), activation(i - 1)}, {activation(i)}));
  for (std::uint32_t i = n; i-- > 0;)
    ops.push_back(i + 1 == n ? op(120, {weight(i), activation(i)}, {gradient(i)})
                             : op(120, {weight(i), activation(i)}, {gradient(i)}));
  for (std::uint32_t i = 0; i < n; ++i)
    ops.push_back(op(10, {gradient(i), weight(i), state(i)}, {weight(i), state(i)}));
  for (wire::TraceOp& o : ops) o.recomputable = false;
  return step(std::move(tensors), std::move(ops));
}

double best_published_us(const wire::Trace& t, const Machine& m) {
  double best_us = std::numeric_limits<double>::infinity();
  for (const SwapPolicy& p : published_swap_policies()) {
    const auto plan = p.plan(t, m);
    if (plan) best_us = std::min(best_us, joint::planned_step_us(t, m, *plan));
  }
  return best_us;
}

SwapControl with_effort(double effort, bool keeps_order = false) {
  SwapControl control;
  control.effort = effort;
  control.keeps_order = keeps_order;
  return control;
}

SwapPlan planned(const wire::Trace& t, const Machine& m, const SwapControl& control) {
  auto plan = joint::plan_jointly(t, m, control);
  INFO(plan.error);
  REQUIRE(plan);
  return std::move(*plan);
}

bool same_entries(const wire::Schedule& a, const wire::Schedule& b) {
  return std::equal(a.entries.begin(), a.entries.end(), b.entries.begin(), b.entries.end(),
                    [](const wire::ScheduleEntry& x, const wire::ScheduleEntry& y) {
                      return x.at == y.at && x.object == y.object && x.action == y.action && x.tier == y.tier;
                    });
}

}  // namespace

TEST_CASE("Updates that stand at a step's end run where their gradients are there") {
  const wire::Trace t = with_updates_at_the_end(12);
  const Machine m = two_tiers(lower_bounds(t, two_tiers(1)).max_live_bytes * 7 / 10);
  const std::vector<Order> orders = joint::promising_orders(t, m);
  REQUIRE_FALSE(orders.empty());
  const SwapPlan free = planned(t, m, with_effort(0.3));
  const SwapPlan kept = planned(t, m, with_effort(0.3, true));
  CHECK(kept.operations.empty());
  REQUIRE_FALSE(free.operations.empty());
  CHECK(check_operations(t, free.operations).empty());
  const double free_us = repeated_us(t, m, free), kept_us = repeated_us(t, m, kept);
  CHECK(free_us < 0.97 * kept_us);
  CHECK(free_us <= best_published_us(t, m) * (1 + 1e-12));
}

TEST_CASE("Where no order promises anything the plan is what it was") {
  std::uint32_t same = 0, other = 0;
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    Random random(seed);
    const wire::Trace t = random_step(random);
    const Machine m = random_machine(random, t);
    const bool promises = !joint::promising_orders(t, m).empty();
    const auto free = joint::plan_jointly(t, m, with_effort(0.1));
    const auto kept = joint::plan_jointly(t, m, with_effort(0.1, true));
    REQUIRE(free.error == kept.error);
    if (!free) continue;
    INFO("seed " << seed);
    if (!promises) {
      REQUIRE(free->operations.empty());
      REQUIRE(same_entries(*free, *kept));
      ++same;
      continue;
    }
    REQUIRE(repeated_us(t, m, *free) <= best_published_us(t, m) * (1 + 1e-12));
    other += free->operations.empty() ? 0 : 1;
  }
  CHECK(same > 20);
  CHECK(other > 5);
}

TEST_CASE("No order is asked for where everything fits or reads are not known") {
  wire::Trace t = with_updates_at_the_end(12);
  const std::uint64_t all = lower_bounds(t, two_tiers(1)).max_live_bytes;
  CHECK(joint::promising_orders(t, two_tiers(all)).empty());
  CHECK_FALSE(joint::promising_orders(t, two_tiers(all / 2)).empty());
  t.reads_known = false;
  CHECK(joint::promising_orders(t, two_tiers(all / 2)).empty());
  CHECK(planned(t, two_tiers(all * 7 / 10), with_effort(0.05)).operations.empty());
}

TEST_CASE("Orders and variants are chosen together") {
  wire::Trace t = with_updates_at_the_end(8);
  for (wire::TraceOp& o : t.ops) o.variants = {{"fast", o.time_us / 2, 10}};
  const Machine m = two_tiers(lower_bounds(t, two_tiers(1)).max_live_bytes * 7 / 10);
  const SwapPlan plan = planned(t, m, with_effort(0.3));
  CHECK_FALSE(plan.operations.empty());
  CHECK_FALSE(plan.variants.empty());
  const SwapPlan kept = planned(t, m, with_effort(0.3, true));
  CHECK(repeated_us(t, m, plan) < repeated_us(t, m, kept));
}

TEST_CASE("A search that begins with an earlier plan keeps its order, or its own where it must") {
  const wire::Trace t = with_updates_at_the_end(12);
  const Machine m = two_tiers(lower_bounds(t, two_tiers(1)).max_live_bytes * 7 / 10);
  const SwapPlan before = planned(t, m, with_effort(0.1));
  REQUIRE_FALSE(before.operations.empty());
  SwapControl control = with_effort(0.05);
  control.from = &before;
  const SwapPlan after = planned(t, m, control);
  CHECK(after.operations == before.operations);
  CHECK(repeated_us(t, m, after) <= repeated_us(t, m, before));
  control.keeps_order = true;
  CHECK(planned(t, m, control).operations.empty());
}

TEST_CASE("What compresses a plan afterwards has it in the trace's order") {
  wire::Trace t = with_updates_at_the_end(6);
  for (wire::TraceTensor& one : t.tensors) one.sparsity = 0.5;
  Machine m = two_tiers(lower_bounds(t, two_tiers(1)).max_live_bytes * 7 / 10);
  m.codecs = {{"zeros", 1e9, 1e9, 1, true, 1 / 32.}};
  for (const char* name : {"joint+cdma", "joint+cswap"}) {
    const auto plan = swap_policy(name)->plan(t, m, with_effort(0.05));
    INFO(plan.error);
    REQUIRE(plan);
    CHECK(plan->operations.empty());
    CHECK(repeated_us(t, m, *plan) < never_us);
  }
}

}  // namespace terrace::planner
