// The joint search: never worse than where it starts, the same for a seed, stoppable, and better where only a
// mixture of moving and recomputing helps.
#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <set>

#include "daemon/planner/recompute/search/search.h"
#include "daemon/planner/simulate/joint/drafts.h"
#include "daemon/planner/simulate/joint/joint.h"
#include "daemon/planner/simulate/joint/remade.h"
#include "tests/planner/simulate/random_plans.h"

namespace terrace::planner {
namespace {

using namespace test;
using wire::Action;

// Forward and backward over n layers; each activation is read again by its layer's backward operation.
wire::Trace layers(std::uint32_t n, std::uint64_t bytes, double forward_us, double backward_us) {
  std::vector<wire::TraceTensor> tensors(n + 2, tensor(bytes));
  tensors[n + 1] = tensor(1);
  tensors[n + 1].kind = wire::TensorKind::gradient;
  std::vector<wire::TraceOp> ops;
  for (std::uint32_t i = 0; i < n; ++i) ops.push_back(op(forward_us, {i}, {i + 1}));
  ops.push_back(op(backward_us, {n}, {n + 1}));
  for (std::uint32_t i = n; i-- > 0;) ops.push_back(op(backward_us, {i, n + 1}, {n + 1}));
  return step(std::move(tensors), std::move(ops));
}

SwapControl with_effort(double effort, std::uint64_t seed = 0) {
  SwapControl control;
  control.effort = effort;
  control.seed = seed;
  return control;
}

bool uses(const wire::Schedule& schedule, Action action) {
  return std::any_of(schedule.entries.begin(), schedule.entries.end(),
                     [action](const wire::ScheduleEntry& e) { return e.action == action; });
}

bool same_entries(const wire::Schedule& a, const wire::Schedule& b) {
  return std::equal(a.entries.begin(), a.entries.end(), b.entries.begin(), b.entries.end(),
                    [](const wire::ScheduleEntry& x, const wire::ScheduleEntry& y) {
                      return x.at == y.at && x.object == y.object && x.action == y.action && x.tier == y.tier;
                    });
}

// How often the search asks whether to stop: before each plan that it tries.
int asked(const wire::Trace& t, const Machine& m, bool* planned) {
  int times = 0;
  SwapControl control;
  control.stop = [&] {
    ++times;
    return false;
  };
  *planned = static_cast<bool>(joint::plan_jointly(t, m, control));
  return times;
}

}  // namespace

TEST_CASE("The joint search is never worse than any published policy, and its plans pass the judge") {
  std::uint32_t better = 0, ran = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const wire::Trace t = random_step(random);
    Machine m = random_machine(random, t);
    m.tiers[0].paged = true;  // addresses_test.cpp has those that need addresses
    const double published_us = best_published_us(t, m);
    const auto plan = joint::plan_jointly(t, m, with_effort(0.2));
    INFO("seed " << seed << " " << plan.error);
    if (!plan) {
      REQUIRE(published_us == std::numeric_limits<double>::infinity());
      continue;
    }
    ++ran;
    const auto r = simulate(t, m, *plan, {plan->victims, StallRule::strict, 2, true, 0});
    REQUIRE(r);
    REQUIRE_THAT(check_timeline(t, m, *r), Catch::Equals(""));
    const double joint_us = joint::planned_step_us(t, m, *plan);
    REQUIRE(r->total_us == Approx(joint_us));
    REQUIRE(joint_us <= published_us * (1 + 1e-12));  // times are sums in different orders
    better += joint_us < 0.99 * published_us ? 1 : 0;
  }
  CHECK(ran > 150);
  CHECK(better > 20);
}

TEST_CASE("The joint search gives the same plan for the same seed") {
  const wire::Trace t = layers(20, 100, 30, 60);
  const Machine m = two_tiers(900);
  const auto first = joint::plan_jointly(t, m, with_effort(0.3, 3));
  const auto second = joint::plan_jointly(t, m, with_effort(0.3, 3));
  REQUIRE(first);
  REQUIRE(second);
  CHECK(same_entries(*first, *second));
}

TEST_CASE("The joint search mixes moving and recomputing where either alone is slower") {
  // Cheap to compute, and a link that carries half of what must leave in time.
  const wire::Trace t = layers(24, 100, 40, 60);
  const Machine both = two_tiers(900);
  Machine alone = both;
  alone.tiers.resize(1);
  alone.links.clear();
  alone.routes.clear();
  wire::Trace fixed = t;
  for (wire::TraceOp& o : fixed.ops) o.recomputable = false;
  const auto us = [](const wire::Trace& trace, const Machine& m) {
    const auto plan = joint::plan_jointly(trace, m, {});
    REQUIRE(plan);
    return std::pair(joint::planned_step_us(trace, m, *plan), *plan);
  };
  const auto [mixed_us, mixed] = us(t, both);
  CHECK(uses(mixed, Action::redo));
  CHECK(uses(mixed, Action::out));
  CHECK(mixed_us < 0.97 * us(t, alone).first);
  CHECK(mixed_us < 0.97 * us(fixed, both).first);
}

TEST_CASE(
    "The joint search costs no more than recomputing alone where there is no link and no update in place") {
  const wire::Trace t = layers(24, 100, 40, 60);
  const auto recompute_step = recompute::step_of(t);
  REQUIRE(recompute_step);
  recompute::SearchOptions brief_search;
  brief_search.effort = 1e-3;
  for (const std::uint64_t capacity : {1000, 1300, 1600, 2000}) {
    Machine m = two_tiers(capacity);
    m.tiers.resize(1);
    m.links.clear();
    m.routes.clear();
    const auto alone = recompute::search_recomputation(*recompute_step, capacity, brief_search);
    REQUIRE(alone);
    const double alone_us =
        static_cast<double>(check_schedule(*recompute_step, *alone, capacity).cost_ns) / 1e3;
    REQUIRE_FALSE(joint::starts_that_recompute(joint::Drafts(t, m), {}).empty());
    const auto plan = joint::plan_jointly(t, m, with_effort(0.3));
    INFO("capacity " << capacity << " " << plan.error);
    REQUIRE(plan);
    CHECK(joint::planned_step_us(t, m, *plan) <= alone_us * (1 + 1e-12));
  }
}

TEST_CASE("Starts that carry contents beside what is made again wait for nothing") {
  const wire::Trace t = layers(24, 100, 40, 60);
  std::size_t carrying = 0;
  for (const std::uint64_t capacity : {1000, 1300, 1600}) {
    const Machine m = two_tiers(capacity);
    const joint::Drafts drafts(t, m);
    const std::vector<joint::Start> starts = joint::starts_that_recompute(drafts, {});
    // For three budgets one completed by Belady's rule and one beside the link, and one alone behind the
    // first.
    REQUIRE(starts.size() == 9);
    for (const std::size_t i : {2, 4, 6}) {
      const wire::Schedule s = drafts.schedule(starts[i].choices, {.tails = starts[i].tails});
      const auto r = simulate_repeated(t, m, s, Victims::belady, true);
      INFO("capacity " << capacity << ", start " << i << " " << r.error);
      REQUIRE(r);
      CHECK_THAT(check_timeline(t, m, *r), Catch::Equals(""));
      CHECK(r->stalls.total_us() < 1e-6 * r->total_us);
      carrying += r->transfers.empty() ? 0 : 1;
    }
  }
  CHECK(carrying > 3);
}

// Blocks as DenseNet has them (Huang et al., CVPR'17): each makes a small result, joins it with all before
// into one, normalises that into another with its statistics, and changes that in place. Backward reads all
// but the small ones. Join and normalisation take 1 us and 2, the rest 50. One persistent tensor is written
// on the way.
wire::Trace joined_blocks(std::uint32_t count) {
  std::vector<wire::TraceTensor> tensors{tensor(10, true), tensor(100, true)};
  std::vector<wire::TraceOp> ops{op(1, {}, {1})};
  std::vector<std::uint32_t> small, joined;
  std::uint32_t before = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto first = static_cast<std::uint32_t>(tensors.size());
    small.push_back(first);
    joined.push_back(first + 1);
    for (const std::uint32_t bytes : {100U, 100 * (i + 1), 100 * (i + 1), 1U})
      tensors.push_back(tensor(bytes));
    ops.push_back(op(50, {before}, {first}));
    ops.push_back(op(1, small, {first + 1}));
    ops.push_back(op(2, {first + 1}, {first + 2, first + 3}));
    ops.push_back(op(1, {first + 2}, {first + 2}));
    before = first + 2;
  }
  for (std::uint32_t i = count; i-- > 0;)
    ops.push_back(op(50, {joined[i], joined[i] + 1, joined[i] + 2}, {}));
  return step(std::move(tensors), std::move(ops));
}

TEST_CASE("What is joined stays beyond its last use in a start, and nothing is made twice at once") {
  const wire::Trace t = joined_blocks(8);
  const auto searched = recompute::step_of(t);
  REQUIRE(searched);
  const std::uint64_t least = least_bytes_of(*searched), most = peak_bytes_of(*searched);
  std::size_t held = 0, ran = 0;
  for (int part = 0; part < 12; ++part) {
    Machine m = two_tiers(least + (most - least) * static_cast<std::uint64_t>(part) / 12);
    m.tiers.resize(1);
    m.links.clear();
    m.routes.clear();
    const joint::Drafts drafts(t, m);
    const std::vector<joint::Start> starts = joint::starts_that_recompute(drafts, {});
    if (starts.empty()) continue;
    REQUIRE(starts.size() == 1);
    const wire::Schedule s = drafts.schedule(starts[0].choices, {.holds = true, .tails = starts[0].tails});
    m.tiers[0].capacity_bytes += 8;  // for the statistics, which stay here, and may go in the search
    const auto r = simulate_repeated(t, m, s, Victims::belady, true);
    INFO("part " << part << " " << r.error);
    if (!r) continue;  // what the search held by itself is made again here, and that may take more room
    CHECK_THAT(check_timeline(t, m, *r), Catch::Equals(""));
    std::set<std::pair<std::uint32_t, std::uint32_t>> again;
    for (const ExtraWork& w : r->extra)
      if (w.kind == ExtraWork::Kind::recompute) CHECK(again.emplace(w.op, w.position).second);
    held += starts[0].tails.size();
    ++ran;
  }
  CHECK(ran > 6);
  CHECK(held > 3);
}

TEST_CASE("A joint search that is stopped answers the best so far") {
  const wire::Trace t = layers(20, 100, 30, 60);
  const Machine m = two_tiers(900);
  int asked = 0;
  SwapControl control;
  control.stop = [&] { return ++asked > 30; };
  const auto stopped = joint::plan_jointly(t, m, control);
  REQUIRE(stopped);
  CHECK(asked < 40);
  CHECK(joint::planned_step_us(t, m, *stopped) <= best_published_us(t, m));
  control.stop = [] { return true; };
  REQUIRE(joint::plan_jointly(t, m, control));
}

TEST_CASE("The joint search ends where nothing waits, though its sum differs by rounding") {
  const wire::Trace t = layers(20, 100, 1000.1, 2000.3);
  const Machine m = two_tiers(1200);
  double sum_us = 0;
  for (const wire::TraceOp& o : t.ops) sum_us += o.time_us;
  REQUIRE(best_published_us(t, m) > sum_us);
  REQUIRE(best_published_us(t, m) < sum_us * (1 + 1e-12));
  bool planned = false;
  CHECK(asked(t, m, &planned) < 64);  // the fewest that it would try
  CHECK(planned);
}

TEST_CASE("The joint search tries no plan of its own where an operation does not fit") {
  const wire::Trace t = layers(20, 100, 1000, 2000);
  const Machine m = two_tiers(150);
  int by_published = 0;  // they ask, too
  SwapControl control;
  control.stop = [&] {
    ++by_published;
    return false;
  };
  for (const SwapPolicy& p : published_swap_policies()) static_cast<void>(p.plan(t, m, control));
  bool planned = true;
  CHECK(asked(t, m, &planned) <= by_published);
  CHECK_FALSE(planned);
}

TEST_CASE("What a draft reads from a schedule it writes again") {
  const wire::Trace t = layers(6, 100, 30, 60);
  const Machine m = two_tiers(1000);
  const joint::Drafts drafts(t, m);
  const wire::Schedule schedule{t.name,
                                "by hand",
                                {{2, 1, Action::out, 1, {}},
                                 {3, 2, Action::drop, 0, {}},
                                 {10, 2, Action::redo, 0, {}},
                                 {11, 1, Action::in, 1, {}}}};
  const auto report = simulate(t, m, schedule, {Victims::belady, StallRule::strict, 1, true, 0});
  INFO(report.error);
  REQUIRE(report);
  CHECK(same_entries(schedule, drafts.schedule(drafts.read(schedule, *report), {})));
}

namespace {

wire::Trace drifted(wire::Trace t, std::uint64_t seed) {
  Random random(seed);
  for (wire::TraceOp& op : t.ops) op.time_us *= 0.8 + static_cast<double>(random() % 1000) / 2500;
  return t;
}

struct Asked {
  SwapPlan plan;
  int plans = 0;  // tried, about
};

Asked planned(const wire::Trace& t, const Machine& m, const SwapPlan* from, double effort) {
  Asked asked;
  SwapControl control = with_effort(effort);
  control.from = from;
  control.stop = [&asked] { return ++asked.plans < 0; };
  auto plan = joint::plan_jointly(t, m, control);
  INFO(plan.error);
  REQUIRE(plan);
  asked.plan = std::move(*plan);
  return asked;
}

}  // namespace

TEST_CASE("A search that begins with an earlier plan is never worse than that plan, and short") {
  const wire::Trace t = layers(24, 1000, 60, 90);
  const Machine m = two_tiers(9000);
  const Asked before = planned(t, m, nullptr, 0.3);
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    const wire::Trace now = drifted(t, seed);
    const Asked changed = planned(now, m, &before.plan, 0.03);
    CHECK(joint::planned_step_us(now, m, changed.plan) <= joint::planned_step_us(now, m, before.plan));
    CHECK(changed.plan.policy == "joint");
    CHECK(changed.plans * 5 < before.plans);
    CHECK(same_entries(changed.plan, planned(now, m, &before.plan, 0.03).plan));
  }
}

TEST_CASE("An earlier plan that cannot be carried out any more is not begun with") {
  const wire::Trace t = layers(24, 1000, 60, 90);
  const Asked before = planned(t, two_tiers(30000), nullptr, 0.1);
  SwapPlan broken = before.plan;
  broken.entries = {{2, 1, Action::drop, 0, {}}};  // and never made again
  broken.victims = Victims::none;
  const Machine m = two_tiers(9000);
  CHECK(joint::planned_step_us(t, m, broken) == std::numeric_limits<double>::infinity());
  const Asked changed = planned(t, m, &broken, 0.1);
  CHECK(joint::planned_step_us(t, m, changed.plan) <= best_published_us(t, m));
}

TEST_CASE("A search that begins with an earlier plan keeps its variants and may use its codecs") {
  wire::Trace t = layers(12, 1000, 60, 90);
  for (wire::TraceOp& op : t.ops) op.variants = {{"small", op.time_us * 1.1, 0}};
  for (wire::TraceTensor& tensor : t.tensors) tensor.sparsity = 0.8;
  Machine m = two_tiers(5000);
  m.codecs = {{"zeros", 1e9, 1e9, 1, true, 1 / 32.}};
  SwapPlan before = planned(t, m, nullptr, 0.1).plan;
  before.variants = {{3, 1}};
  const Asked changed = planned(drifted(t, 1), m, &before, 0.1);
  REQUIRE(changed.plan.variants.size() == 1);
  CHECK(changed.plan.variants[0].op == 3);
}

}  // namespace terrace::planner
