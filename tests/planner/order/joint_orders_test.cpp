// The joint search over orders of operations: where another order wins it is found and told, where none
// promises anything the plan is what it was, and in neither case is it slower than a published policy.
#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <numeric>

#include "daemon/planner/order/scheduled.h"
#include "daemon/planner/simulate/joint/joint.h"
#include "daemon/planner/simulate/joint/orders.h"
#include "daemon/planner/simulate/joint/reordering.h"
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
  for (std::uint32_t i = n; i-- > 0;) ops.push_back(op(120, {weight(i), activation(i)}, {gradient(i)}));
  for (std::uint32_t i = 0; i < n; ++i)
    ops.push_back(op(10, {gradient(i), weight(i), state(i)}, {weight(i), state(i)}));
  for (wire::TraceOp& o : ops) o.recomputable = false;
  return step(std::move(tensors), std::move(ops));
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

TEST_CASE("Choices keep their gaps in another order") {
  // 2 and 3 read what 0 and 1 made; 4 reads both once more.
  const wire::Trace t = step({tensor(100), tensor(50)}, {op(10, {}, {0}), op(10, {}, {1}), op(10, {0}, {}),
                                                         op(10, {1}, {}), op(10, {0, 1}, {})});
  const Machine m = two_tiers(1000);
  const joint::Drafts drafts(t, m);
  const Order recorded{0, 1, 2, 3, 4}, order{0, 1, 3, 2, 4};
  joint::Choices choices = drafts.all_stay();
  REQUIRE(choices.size() == 3);  // 0: 0 to 2 and 2 to 4; 1: 1 to 3. Between 3 and 4 there is none
  choices[1] = {choices[1].gap, joint::Way::moves, 1, 3, 4, 0};
  choices[2] = {choices[2].gap, joint::Way::moves, 1, 2, 3, 0};
  REQUIRE((choices[1].gap.from == 2 && choices[2].gap.tensor == 1));
  const wire::Trace other = reorder(t, order);
  const joint::Drafts other_drafts(other, m);
  // Now 0: 0 to 3; 1: 1 to 2, which is no gap, and 2 to 4.
  const joint::Choices carried = joint::carried_over(choices, recorded, other_drafts, order);
  REQUIRE(carried.size() == 2);
  CHECK((carried[0].gap.tensor == 0 && carried[0].gap.to == 3 && carried[0].way == joint::Way::stays));
  CHECK((carried[1].gap.tensor == 1 && carried[1].gap.to == 4 && carried[1].way == joint::Way::stays));
  const joint::Choices back = joint::carried_over(choices, recorded, drafts, recorded);
  for (std::size_t g = 0; g < back.size(); ++g)
    CHECK((back[g].way == choices[g].way && back[g].out == choices[g].out && back[g].in == choices[g].in));
}

TEST_CASE("An operation that waits gives way to one behind it") {
  // 100 bytes leave and come back while 4 takes 100 us; 5 waits for them although 6 needs nothing.
  const wire::Trace t =
      step({tensor(100), tensor(10)},
           {op(10, {}, {0}), op(10, {}, {1}), op(150, {1}, {}, 95), op(10, {0}, {}), op(80, {}, {})});
  const Machine m = two_tiers(110);
  const joint::Drafts drafts(t, m);
  joint::Choices choices = drafts.all_stay();
  REQUIRE(choices.size() == 1);
  drafts.move(&choices[0], 1);
  choices[0].out = 1;
  choices[0].in = 3;
  const Order recorded{0, 1, 2, 3, 4};
  const double given_us = simulate_repeated(t, m, drafts.schedule(choices, {}), Victims::belady)->total_us;
  joint::Reordering reordering(t, m, {});
  const joint::Manner manner{.tails = {{1, 3}, {1, 4}}};
  const auto changed = reordering.improved(recorded, choices, manner, 60);
  REQUIRE(changed);
  // A tail ends where its operation is now.
  const Order position = positions_of(changed->operations);
  REQUIRE(changed->manner.tails.size() == 2);
  CHECK(changed->manner.tails[0].until == position[3]);
  CHECK(changed->manner.tails[1].until == position[4]);
  CHECK((position[3] != 3 || position[4] != 4));
  CHECK(changed->time_us < given_us);
  CHECK((reordering.tried() > 0 && reordering.tried() <= 60));
  CHECK(changed->operations != recorded);
  CHECK(check_operations(t, changed->operations).empty());
  SwapPlan plan{changed->drafts->schedule(changed->choices, changed->manner), changed->manner.victims};
  plan.operations = changed->operations;
  CHECK(repeated_us(t, m, plan) == changed->time_us);
}

TEST_CASE("Changed orders respect every dependency and are no slower") {
  std::uint32_t found = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    Random random(seed);
    const wire::Trace t = random_step(random);
    const Machine m = roomy_machine(random, t);
    const joint::Drafts drafts(t, m);
    Order recorded(t.ops.size());
    std::iota(recorded.begin(), recorded.end(), 0U);
    const joint::Choices choices = drafts.construct(0, false);
    const auto given = simulate_repeated(t, m, drafts.schedule(choices, {}), Victims::belady);
    const auto changed =
        joint::Reordering(t, m, {}).improved(recorded, choices, {Victims::belady, false}, 40);
    if (!changed) continue;
    ++found;
    INFO("seed " << seed);
    REQUIRE(check_operations(t, changed->operations).empty());
    REQUIRE(given);
    REQUIRE(changed->time_us < given->total_us);
    SwapPlan plan{changed->drafts->schedule(changed->choices, changed->manner), changed->manner.victims};
    plan.operations = changed->operations;
    REQUIRE(repeated_us(t, m, plan) == changed->time_us);
  }
  CHECK(found > 20);
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
