// Policies that choose variants: vDNN's dynamic one on steps whose answer is known, moDNN, and both beside
// ours on random steps under the judge.
#include <algorithm>
#include <catch2/catch.hpp>

#include "daemon/planner/simulate/bound/step_bound.h"
#include "daemon/planner/variants.h"
#include "tests/planner/simulate/random_plans.h"

namespace terrace::planner {
namespace {

using namespace test;
using wire::Action;

SwapPolicy policy_for_variants(const std::string& name) {
  for (const SwapPolicy& p : swap_policies())
    if (name == p.name) return p;
  FAIL("no policy " << name);
  return {};
}

SwapPlan chosen_plan(const char* name, const wire::Trace& trace, const Machine& machine) {
  const auto plan = policy_for_variants(name).plan(trace, machine);
  INFO(plan.error);
  REQUIRE(plan);
  return *plan;
}

double judged_us(const wire::Trace& trace, const Machine& machine, const SwapPlan& plan) {
  const auto r = simulate(trace, machine, plan, {plan.victims, StallRule::strict, 2, true, 0});
  INFO(plan.policy << " " << r.error);
  REQUIRE(r);
  CHECK_THAT(check_timeline(trace, machine, *r), Catch::Equals(""));
  return r->total_us;
}

std::size_t count(const wire::Schedule& s, Action action) {
  return static_cast<std::size_t>(
      std::count_if(s.entries.begin(), s.entries.end(), [&](const auto& e) { return e.action == action; }));
}

// Image 0, activations 1 and 2, gradients 3 and 4, each of 100 bytes; a convolution, a ReLU, and backward.
// Each operation takes 200 us; the convolution also 120 us with 250 bytes of workspace, or 300 us with none,
// and its own way has 60.
wire::Trace convolution_step() {
  std::vector<wire::TraceTensor> tensors(5, tensor(100));
  tensors[3].kind = tensors[4].kind = wire::TensorKind::gradient;
  wire::Trace t =
      step(tensors, {op(200, {0}, {1}, 60), op(200, {1}, {2}), op(200, {1, 2}, {3}), op(200, {0, 3}, {4})});
  t.ops[0].name = "conv";
  t.ops[1].name = "relu";
  t.ops[0].variants = {{"fast", 120, 250}, {"small", 300, 0}};
  return t;
}

std::vector<std::uint32_t> variants_of(const wire::Schedule& s) {
  std::vector<std::uint32_t> all;
  for (const wire::VariantChoice& c : s.variants) all.push_back(c.variant);
  return all;
}

TEST_CASE("vDNN's dynamic policy takes what is fastest of what fits, and nothing leaves that need not") {
  const wire::Trace t = convolution_step();
  // 0 and 1 while the convolution runs, with 250 bytes; 0, 1, 2 and 3 later on.
  const SwapPlan roomy = chosen_plan("vdnn_dynamic", t, two_tiers(450));
  CHECK(variants_of(roomy) == std::vector<std::uint32_t>{1});
  CHECK(roomy.entries.empty());
  CHECK(judged_us(t, two_tiers(450), roomy) == 720);
  // That needs no other tier.
  Machine alone = two_tiers(450);
  alone.routes.clear();
  CHECK(chosen_plan("vdnn_dynamic", t, alone).entries.empty());
  // In 449 the fastest has no room, nor once the image has left: it leaves behind the convolution that reads
  // it.
  const SwapPlan less = chosen_plan("vdnn_dynamic", t, two_tiers(449));
  CHECK(variants_of(less).empty());
  CHECK(count(less, Action::out) >= 1);
  const SwapPlan least = chosen_plan("vdnn_dynamic", t, two_tiers(300));
  CHECK(count(least, Action::out) >= 1);
  CHECK(policy_for_variants("vdnn_dynamic").plan(t, two_tiers(250)).error.find("tier 0") !=
        std::string::npos);
}

TEST_CASE("vDNN's dynamic policy gives each layer the fastest variant that has room beside the tensors") {
  wire::Trace t = convolution_step();
  // In 320 bytes the image must leave; the convolution then has 120 for its workspace.
  t.ops[0].variants = {{"fast", 120, 250}, {"small", 300, 10}, {"middle", 150, 120}, {"slow", 290, 100}};
  const SwapPlan plan = chosen_plan("vdnn_dynamic", t, two_tiers(320));
  CHECK(variants_of(plan) == std::vector<std::uint32_t>{3});
  // The image is late by 100, as with the convolution's own way.
  CHECK(judged_us(t, two_tiers(320), plan) == 150 + 3 * 200 + 100);
  // A byte less, and its own way with 60 bytes is the fastest that is left.
  CHECK(variants_of(chosen_plan("vdnn_dynamic", t, two_tiers(319))).empty());
}

TEST_CASE("vDNN's dynamic policy on a step without variants is the first of its forms that fits") {
  wire::Trace t = convolution_step();
  t.ops[0].variants.clear();
  CHECK(chosen_plan("vdnn_dynamic", t, two_tiers(1000)).entries.empty());
  const SwapPlan conv = chosen_plan("vdnn_dynamic", t, two_tiers(320));
  CHECK(count(conv, Action::out) == 1);
}

TEST_CASE("moDNN leaves a step that fits alone, with its fastest variants") {
  const wire::Trace t = convolution_step();
  const SwapPlan plan = chosen_plan("modnn", t, two_tiers(450));
  CHECK(plan.entries.empty());
  CHECK(variants_of(plan) == std::vector<std::uint32_t>{1});
}

TEST_CASE(
    "moDNN takes a variant with less workspace where that is cheaper than the link, and the other way "
    "round") {
  // Operation 2 has 100 bytes of workspace and 0, 1 and 3 beside it; 0 rests over it, and its way out and
  // back takes 200 us, most of which is waited for. Without workspace the operation takes `more_us`.
  const auto step_with = [](double more_us) {
    std::vector<wire::TraceTensor> tensors(4, tensor(100));
    wire::Trace t = step(tensors, {op(10, {}, {0}), op(10, {}, {1}), op(500, {1}, {3}, 100),
                                   op(10, {1, 3}, {}), op(10, {0}, {})});
    t.ops[2].variants = {{"parts 2", 500 + more_us, 0}};
    return t;
  };
  const wire::Trace cheap = step_with(50), dear = step_with(400);
  const SwapPlan by_variant = chosen_plan("modnn", cheap, two_tiers(300));
  CHECK(by_variant.entries.empty());
  CHECK(variants_of(by_variant) == std::vector<std::uint32_t>{1});
  CHECK(judged_us(cheap, two_tiers(300), by_variant) == 540 + 50);
  const SwapPlan by_link = chosen_plan("modnn", dear, two_tiers(300));
  CHECK(variants_of(by_link).empty());
  CHECK(count(by_link, Action::out) == 1);
  CHECK(judged_us(dear, two_tiers(300), by_link) <= 540 + 200);
  // Both, where one is not enough.
  const SwapPlan both = chosen_plan("modnn", dear, two_tiers(200));
  CHECK(variants_of(both) == std::vector<std::uint32_t>{1});
  CHECK(count(both, Action::out) >= 1);
  judged_us(dear, two_tiers(200), both);
}

TEST_CASE("moDNN moves only what helps where memory is short") {
  // 0 rests over operations 1 and 2 and 2 over operation 4, where there is room; 1 over operations 6 to 8,
  // one of which needs 250 bytes beside it.
  std::vector<wire::TraceTensor> tensors(4, tensor(100));
  const wire::Trace t = step(tensors, {op(500, {}, {0}), op(500, {}, {}), op(500, {}, {}), op(10, {0}, {2}),
                                       op(500, {}, {1}), op(500, {1, 2}, {}), op(500, {}, {}),
                                       op(500, {}, {3}, 150), op(500, {3}, {}), op(10, {1}, {})});
  const SwapPlan plan = chosen_plan("modnn", t, two_tiers(300));
  REQUIRE(count(plan, Action::out) == 1);
  CHECK(plan.entries.front().object == 1);
  CHECK(judged_us(t, two_tiers(300), plan) == 8 * 500 + 20);
}

TEST_CASE("Plans with variants of random steps pass the judge, ours is never slower, and bounds hold") {
  std::uint32_t ran = 0, with_choice = 0, faster = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    Random random(seed);
    wire::Trace t = random_step(random);
    for (wire::TraceOp& o : t.ops) {
      for (std::uint64_t v = random() % 4; v > 0; --v)
        o.variants.push_back({std::to_string(v), static_cast<double>(random() % 100), random() % 200});
    }
    const Machine m = roomy_machine(random, t);
    const double bound_us = step_bound(t, m, {.recomputes = true}).step_us;
    double best_us = 1e300, ours_us = 1e300, own_us = 1e300;
    for (const SwapPolicy& p : swap_policies()) {
      const auto plan = p.plan(t, m, {0, 0.1, {}});
      if (!plan) continue;
      INFO("seed " << seed << " " << p.name);
      CHECK((plan->variants.empty() || p.chooses_variants));
      const auto r = simulate(t, m, *plan, {plan->victims, StallRule::strict, 2, true, 0});
      if (!r) continue;
      REQUIRE_THAT(check_timeline(t, m, *r), Catch::Equals(""));
      CHECK(r->total_us >= bound_us * (1 - 1e-9));
      ++ran;
      with_choice += plan->variants.empty() ? 0 : 1;
      if (std::string(p.name) == "joint")
        ours_us = r->total_us;
      else
        best_us = std::min(best_us, r->total_us);
      if (!p.chooses_variants) own_us = std::min(own_us, r->total_us);
    }
    INFO("seed " << seed);
    CHECK(ours_us <= best_us);
    faster += ours_us < own_us ? 1 : 0;
  }
  CHECK(ran > 1500);
  CHECK(with_choice > 150);
  CHECK(faster > 100);
}

}  // namespace
}  // namespace terrace::planner
