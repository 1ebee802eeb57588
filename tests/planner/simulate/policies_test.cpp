// Swap policies on steps small enough to know the answer, and on random ones under the judge.
#include <algorithm>
#include <catch2/catch.hpp>

#include "daemon/planner/simulate/gaps/eviction_walk.h"
#include "daemon/planner/simulate/gaps/lineage.h"
#include "daemon/planner/simulate/policies/swapadvisor.h"
#include "liballoc/wire/schedule/image.h"
#include "tests/planner/simulate/random_plans.h"

namespace terrace::planner {
namespace {

using namespace test;
using wire::Action;

SwapPolicy policy(const std::string& name) {
  for (const SwapPolicy& p : swap_policies()) {
    if (name == p.name) return p;
  }
  FAIL("no policy " << name);
  return {};
}

wire::Schedule planned(const char* name, const wire::Trace& trace, const Machine& machine) {
  const auto schedule = policy(name).plan(trace, machine);
  INFO(schedule.error);
  REQUIRE(schedule);
  return *schedule;
}

std::vector<std::uint32_t> tensors_of(const wire::Schedule& s, Action action) {
  std::vector<std::uint32_t> tensors;
  for (const auto& e : s.entries) {
    if (e.action == action) tensors.push_back(e.object);
  }
  return tensors;
}

// Why no job could be given this schedule, or one that reads otherwise; empty: it could.
std::string unlike_an_image(const wire::Schedule& schedule, const Machine& machine) {
  std::vector<std::string> tiers, codecs;
  for (const Tier& tier : machine.tiers) tiers.push_back(tier.name);
  for (const CodecCost& codec : machine.codecs) codecs.push_back(codec.name);
  const Result<std::string> image = wire::schedule_image(schedule, tiers, codecs);
  if (!image) return image.error;
  const wire::OpenedSchedule opened = wire::open_schedule(std::as_bytes(std::span(*image)));
  if (!opened) return wire::describe_fault(opened);
  if (opened.view.entries.size() != schedule.entries.size()) return "the image has other entries";
  for (std::size_t i = 0; i < schedule.entries.size(); ++i) {
    const wire::ScheduleEntry &a = schedule.entries[i], &b = opened.view.entries[i];
    const bool same = a.at == b.at && a.by == b.by && a.action == b.action && a.tier == b.tier &&
                      schedule.objects[a.object].id == opened.view.objects[b.object].id;
    if (!same) return "the image has another entry " + std::to_string(i);
  }
  return {};
}

// Forward 0 to n-1: layer i reads activation i, makes i+1, with weight w_i. Backward n to 2n-1: reads
// activation and gradient, makes the gradient before. Tensors: activations 0..n, gradients n+1..2n+1,
// weights.
wire::Trace network(std::uint32_t n, std::uint64_t bytes, double time_us) {
  std::vector<wire::TraceTensor> tensors(2 * n + 2, tensor(bytes));
  for (std::uint32_t i = n + 1; i < 2 * n + 2; ++i) tensors[i].kind = wire::TensorKind::gradient;
  for (std::uint32_t i = 0; i < n; ++i) tensors.push_back(tensor(10, true));
  std::vector<wire::TraceOp> ops;
  for (std::uint32_t i = 0; i < n; ++i) {
    ops.push_back(op(time_us, {i, 2 * n + 2 + i}, {i + 1}));
    ops.back().name = i % 2 == 0 ? "Conv2d_Forward" : "ReLU_Forward";
  }
  ops.push_back(op(time_us, {n}, {2 * n + 1}));
  for (std::uint32_t i = n; i-- > 0;) {
    ops.push_back(op(time_us, {i, n + 2 + i, 2 * n + 2 + i}, {n + 1 + i, 2 * n + 2 + i}));
  }
  return step(tensors, ops);
}

}  // namespace

TEST_CASE("vDNN offloads what forward layers read, last made first back, one layer ahead") {
  const wire::Trace t = network(4, 100, 200);
  const wire::Schedule all = planned("vdnn_all", t, two_tiers(1000));
  CHECK(tensors_of(all, Action::out) == std::vector<std::uint32_t>{0, 1, 2, 3});
  CHECK(tensors_of(all, Action::in) == std::vector<std::uint32_t>{3, 2, 1, 0});
  // Backward begins with operation 4; activation i is needed by operation 8 - i.
  for (const auto& e : all.entries) {
    // During the layer that reads it; the image exists only when the first layer begins.
    if (e.action == Action::out) CHECK(e.at == std::max(e.object, 1U));
    if (e.action == Action::in) CHECK(e.at == 7 - e.object);
  }
  const wire::Schedule conv = planned("vdnn_conv", t, two_tiers(1000));
  CHECK(tensors_of(conv, Action::out) == std::vector<std::uint32_t>{0, 2});
  // At the 350 bytes that three neighbours and the weights need, everything is hidden.
  const auto r = simulate(t, two_tiers(540), all, {Victims::none, StallRule::strict, 1, true, 0});
  INFO(r.error);
  REQUIRE(r);
  CHECK_THAT(check_timeline(t, two_tiers(540), *r), Catch::Equals(""));
  CHECK(r->stalls.total_us() == 0);
  CHECK_FALSE(simulate(t, two_tiers(540), {}));
}

TEST_CASE("vDNN waits at the end of each layer for what it moves, vDNN++ only for what it lacks") {
  // Forward: operation 0 makes 1 of 0; operation 1 reads both, so that 0 leaves while it runs (100 µs for its
  // 10); operation 2 needs neither. Backward: 3 makes the gradient 3, 4 reads 0.
  std::vector<wire::TraceTensor> tensors(5, tensor(100));
  tensors[3].kind = tensors[4].kind = wire::TensorKind::gradient;
  const wire::Trace t = step(tensors, {op(10, {0}, {1}), op(10, {0}, {1}), op(10, {1}, {2}),
                                       op(150, {2}, {3}), op(10, {0, 3}, {4})});
  const Machine m = two_tiers(1000);
  const auto waits =
      simulate(t, m, planned("vdnn_all", t, m), {Victims::none, StallRule::strict, 1, true, 0});
  const auto goes_on =
      simulate(t, m, planned("vdnnpp_all", t, m), {Victims::none, StallRule::strict, 1, true, 0});
  REQUIRE((waits && goes_on));
  CHECK_THAT(check_timeline(t, m, *waits), Catch::Equals(""));
  // 0 leaves from 10 to 110, and operation 2 begins at 110 instead of 20. Its way back hides in operation 3.
  CHECK(waits->ops[2].start_us == 110);
  CHECK(waits->total_us == 110 + 10 + 150 + 10);
  // Operation 3 begins at 30; 0 has left at 110 and is back at 210, after its end at 180.
  CHECK(goes_on->ops[2].start_us == 20);
  CHECK(goes_on->total_us == 210 + 10);
}

TEST_CASE("FlashNeuron offloads the first made until the rest fits, and compresses only when late") {
  wire::Trace t = network(6, 100, 200);
  const std::uint64_t live = lower_bounds(t, two_tiers(1)).max_live_bytes;
  CHECK(tensors_of(planned("flashneuron", t, two_tiers(live)), Action::out).empty());
  const wire::Schedule one = planned("flashneuron", t, two_tiers(live - 1));
  CHECK(tensors_of(one, Action::out) == std::vector<std::uint32_t>{0});
  const wire::Schedule three = planned("flashneuron", t, two_tiers(live - 201));
  CHECK(tensors_of(three, Action::out) == std::vector<std::uint32_t>{0, 1, 2});
  CHECK(std::all_of(three.entries.begin(), three.entries.end(), [](const auto& e) { return e.codec == 0; }));
  const auto r = simulate(t, two_tiers(live - 201), three, {Victims::none, StallRule::strict, 2, true, 0});
  INFO(r.error);
  REQUIRE(r);
  CHECK_THAT(check_timeline(t, two_tiers(live - 201), *r), Catch::Equals(""));
  Machine slow = two_tiers(live - 201);
  slow.links[0].out_bytes_per_second = 0.25e6;  // 1,200 µs for 300 bytes, and the first can leave at 200
  slow.codecs = {{"zeros", 1e9, 1e9, 1, true, 0}};
  t.tensors[0].sparsity = 0.1;
  t.tensors[1].sparsity = 0.5;
  const wire::Schedule coded = planned("flashneuron", t, slow);
  std::vector<std::uint32_t> with;
  for (const auto& e : coded.entries) {
    if (e.codec != 0) with.push_back(e.object);
  }
  CHECK(with == std::vector<std::uint32_t>{1});
}

TEST_CASE("FlashNeuron replaces the last taken that does not shrink where the queue is late") {
  // Forward takes 1,200. Tensor 0 may leave from 200 on, 1 from 400, 2 from 600, 3 from 800; each takes 455,
  // compressed tensor 3 takes 45: 0, 1 and 2 have left at 1,564, 0, 1 and 3 at 1,155.
  wire::Trace t = network(6, 100, 200);
  const std::uint64_t live = lower_bounds(t, two_tiers(1)).max_live_bytes;
  Machine m = two_tiers(live - 201);
  m.links[0].out_bytes_per_second = 0.22e6;
  m.codecs = {{"zeros", 1e9, 1e9, 1, true, 0}};
  t.tensors[3].sparsity = 0.9;
  const wire::Schedule s = planned("flashneuron", t, m);
  CHECK(tensors_of(s, Action::out) == std::vector<std::uint32_t>{0, 1, 3});
  for (const auto& e : s.entries) {
    if (e.action == Action::out) CHECK(e.codec == (e.object == 3 ? 1U : 0U));
  }
  const auto r = simulate(t, m, s, {Victims::none, StallRule::strict, 2, true, 0});
  INFO(r.error);
  REQUIRE(r);
  CHECK_THAT(check_timeline(t, m, *r), Catch::Equals(""));
  // A link that is in time needs no replacement.
  m.links[0].out_bytes_per_second = 0.3e6;
  CHECK(tensors_of(planned("flashneuron", t, m), Action::out) == std::vector<std::uint32_t>{0, 1, 2});
}

TEST_CASE("DeepUM lets leave what the next operations do not need, and brings it back eight ahead") {
  // 0 rests from operation 0 to 15. At operation 2 memory is short by 50, and 1 and 2 are at work.
  std::vector<wire::TraceOp> ops = {op(20, {}, {0}), op(20, {}, {1}), op(20, {1}, {2})};
  for (int i = 0; i < 12; ++i) ops.push_back(op(20, {2}, {2}));
  ops.push_back(op(20, {0, 2}, {}));
  const wire::Trace t = step({tensor(100), tensor(100), tensor(100)}, ops);
  const wire::Schedule s = planned("deepum", t, two_tiers(250));
  REQUIRE(s.entries.size() == 2);
  CHECK((s.entries[0].action == Action::out && s.entries[0].object == 0 && s.entries[0].at == 2));
  CHECK((s.entries[1].action == Action::in && s.entries[1].object == 0 && s.entries[1].at == 7));
  const auto r = simulate(t, two_tiers(250), s, {Victims::lru, StallRule::strict, 1, true, 0});
  REQUIRE(r);
  CHECK(r->stalls.room_us == 100);  // it leaves when memory is short already
  CHECK(r->total_us == 16 * 20 + 100);
  CHECK(planned("deepum", t, two_tiers(300)).entries.empty());
}

TEST_CASE("SwapAdvisor's first plan is Belady's: as early as the last use, back as early as there is room") {
  // 0 and 1 rest; at operation 3 memory is short by 50, and 0 is needed again last.
  const wire::Trace t = step({tensor(100), tensor(100), tensor(150), tensor(10)},
                             {op(10, {}, {0}), op(10, {}, {1}), op(10, {}, {3}), op(10, {3}, {2}),
                              op(10, {2}, {3}), op(10, {1}, {3}), op(10, {3}, {3}), op(10, {0}, {3})});
  const wire::Schedule s = planned("swapadvisor_first", t, two_tiers(310));
  REQUIRE(s.entries.size() == 2);
  CHECK((s.entries[0].action == Action::out && s.entries[0].object == 0 && s.entries[0].at == 1));
  // 2 dies with operation 4, and from 5 on there is room.
  CHECK((s.entries[1].action == Action::in && s.entries[1].object == 0 && s.entries[1].at == 5));
}

TEST_CASE("What persists leaves behind its last use, and is back in the next step before its first") {
  // Weight 0 is used by operation 3 alone. 1 fills the memory in operations 0 and 1, 2 in 5 and 6: 250 bytes,
  // and there is room for 200.
  const wire::Trace t = step({tensor(100, true), tensor(150), tensor(150)},
                             {op(100, {}, {1}), op(100, {1}, {}), op(100, {}, {}), op(100, {0}, {}),
                              op(100, {}, {}), op(100, {}, {2}), op(100, {2}, {})});
  const EvictionWalk walk(t, 200, 0);
  REQUIRE(walk.gaps().size() == 1);
  const auto any = [](std::uint32_t, bool) { return std::int64_t{0}; };
  const std::vector<Leaving> leaving = walk.run(any);
  REQUIRE(leaving.size() == 1);  // taken at 0, and not again at 5
  CHECK(leaving[0].at == 0);
  CHECK(EvictionWalk(t, 250, 0).run(any).empty());
  const wire::Schedule s = planned("swapadvisor", t, two_tiers(200));
  REQUIRE(s.entries.size() == 2);
  CHECK((s.entries[0].action == Action::in && s.entries[0].at == 2));
  CHECK((s.entries[1].action == Action::out && s.entries[1].at == 4));
  const auto r = simulate(t, two_tiers(200), s, {Victims::belady, StallRule::strict, 2, true, 0});
  REQUIRE(r);
  CHECK_THAT(check_timeline(t, two_tiers(200), *r), Catch::Equals(""));
  CHECK(r->total_us == 700);
}

TEST_CASE("SwapAdvisor gives the same for a seed, never worse for more plans, and stops when told") {
  std::uint32_t better = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    const wire::Trace t = random_step(random);
    const Machine m = roomy_machine(random, t);
    std::vector<double> times_us;
    for (const std::uint32_t plans : {1U, 8U, 64U}) {
      SwapAdvisorOptions options;
      options.seed = seed;
      options.most_plans = options.fewest_plans = plans;
      const auto s = search_swaps(t, m, options);
      const auto again = search_swaps(t, m, options);
      const auto r = simulate(t, m, *s, {Victims::belady, StallRule::strict, 2, false, 0});
      const auto r_again = simulate(t, m, *again, {Victims::belady, StallRule::strict, 2, false, 0});
      REQUIRE((r && r_again));
      CHECK(r->total_us == r_again->total_us);
      times_us.push_back(r->total_us);
    }
    INFO("seed " << seed);
    CHECK(times_us[1] <= times_us[0]);
    CHECK(times_us[2] <= times_us[1]);
    better += times_us[2] < times_us[0] ? 1 : 0;
    SwapAdvisorOptions stopped;
    stopped.stop = [] { return true; };
    const auto s = search_swaps(t, m, stopped);
    CHECK(simulate(t, m, *s, {Victims::belady, StallRule::strict, 2, false, 0})->total_us == times_us[0]);
  }
  CHECK(better > 10);
}

TEST_CASE("Capuchin takes what is free longest, only as much as is needed, and is in time") {
  const wire::Trace t = network(6, 100, 200);
  const std::uint64_t live = lower_bounds(t, two_tiers(1)).max_live_bytes;
  CHECK(planned("capuchin_swap", t, two_tiers(live)).entries.empty());
  // The first layer's weight rests longest beyond its 20 µs of transfers, then its input.
  CHECK(tensors_of(planned("capuchin_swap", t, two_tiers(live - 1)), Action::out) ==
        std::vector<std::uint32_t>{14});
  const wire::Schedule two = planned("capuchin_swap", t, two_tiers(live - 11));
  CHECK(tensors_of(two, Action::out) == std::vector<std::uint32_t>{14, 0});
  const auto r = simulate(t, two_tiers(live - 11), two, {Victims::lru, StallRule::strict, 1, true, 0});
  REQUIRE(r);
  CHECK(r->stalls.total_us() == 0);
}

TEST_CASE("Capuchin makes again what costs less than waiting for the link, and moves the rest") {
  // 0 is an image that stays. Forward makes 1 of it in 300 µs and 2 in 1 µs; both rest while 3 fills the
  // memory for 120 µs. Backward reads 2, then 1. 330 bytes live, and there is room for 240.
  std::vector<wire::TraceTensor> tensors = {tensor(10, true), tensor(100), tensor(100), tensor(120)};
  wire::Trace t = step(tensors, {op(300, {0}, {1}), op(1, {0}, {2}), op(60, {}, {3}), op(60, {3}, {}),
                                 op(5, {2}, {}), op(5, {1}, {})});
  const Machine m = two_tiers(240);
  const auto run = [&](const char* name) {
    const wire::Schedule s = planned(name, t, m);
    const auto r = simulate(t, m, s, {Victims::lru, StallRule::strict, 1, true, 0});
    INFO(r.error);
    REQUIRE(r);
    CHECK_THAT(check_timeline(t, m, *r), Catch::Equals(""));
    return *r;
  };
  // By swapping alone: 1, which rests longest, leaves from 300 to 400 while operation 2 waits for room, and
  // comes back behind 3.
  const SimulationReport swapped = run("capuchin_swap");
  CHECK(swapped.recompute_us == 0);
  CHECK(swapped.total_us > 431);
  // 2 is dropped and made again for 1 µs; 1 stays.
  const SimulationReport again = run("capuchin");
  CHECK(again.recompute_us == 1);
  CHECK(again.total_us == 431 + 1);
  CHECK(again.transfers.empty());
  // Where it may not run twice, everything is as before.
  t.ops[1].recomputable = false;
  CHECK(run("capuchin").total_us == swapped.total_us);
}

TEST_CASE("Capuchin's price of a tensor counts what was dropped before it, and what comes back early") {
  // 1 of 0, 2 of 1, 3 of 2; all rest until operations 5 (3), 6 (2), 7 (1).
  const std::vector<wire::TraceTensor> tensors = {tensor(10, true), tensor(100), tensor(100), tensor(100)};
  const wire::Trace t = step(tensors, {op(30, {0}, {1}), op(20, {1}, {2}), op(10, {2}, {3}), op(1, {}, {}),
                                       op(1, {}, {}), op(1, {3}, {}), op(1, {2}, {}), op(1, {1}, {})});
  const Gap one{1, 1, 7, false}, two{2, 2, 6, false}, three{3, 2, 5, false};
  Lineage lineage(t);
  CHECK(lineage.price_us(three) == 10);
  lineage.drop(two);
  CHECK(lineage.price_us(three) == 10 + 20);
  lineage.drop(one);
  CHECK(lineage.price_us(three) == 10 + 20 + 30);
  CHECK(lineage.price_us(two) == 20 + 30);
  lineage.keep(one);
  lineage.move(one, 7);
  CHECK(lineage.price_us(three) == 10 + 20 + 7);
  lineage.drop(three);
  // For 3 at operation 5, 2 is made again before it, and dropped until 6.
  const std::vector<Lineage::Again> again = lineage.again_at(5, {three});
  REQUIRE(again.size() == 2);
  CHECK((again[0].tensor == 2 && again[0].then == Lineage::Then::dropped));
  CHECK((again[1].tensor == 3 && again[1].then == Lineage::Then::used));
  // What it was made from is dead, was never made, or has changed since.
  wire::Trace dead = t;
  dead.ops[6].inputs.clear();
  CHECK(Lineage(dead).price_us(three) == 10 + 20);
  CHECK(Lineage(dead).again_at(5, {three})[0].then == Lineage::Then::dead);
  wire::Trace given = dead;
  given.ops[1].outputs.clear();
  CHECK_FALSE(Lineage(given).price_us(three).has_value());
  wire::Trace changed = t;
  changed.ops[3].outputs = {2};
  CHECK_FALSE(Lineage(changed).price_us(three).has_value());
}

TEST_CASE("G10's planner hides all transfers where there is time, and sends long rests to the far tier") {
  const wire::Trace t = network(8, 100, 500);
  Machine m = two_tiers(800);
  m.tiers.push_back({"ssd", unlimited_bytes});
  m.links.push_back({"ssd", 0.5e6, 0.5e6, 0, 0});
  m.routes.push_back({2, {0, 1}});
  const wire::Schedule plan = planned("g10", t, m);
  REQUIRE_FALSE(plan.entries.empty());
  CHECK(std::any_of(plan.entries.begin(), plan.entries.end(), [](const auto& e) { return e.tier == 2; }));
  const auto r = simulate(t, m, plan, {Victims::fifo, StallRule::strict, 2, true, 0});
  REQUIRE(r);
  CHECK_THAT(check_timeline(t, m, *r), Catch::Equals(""));
  CHECK(r->stalls.total_us() == 0);
}

TEST_CASE("Sentinel moves nothing that fits, and is better than paging where it does not") {
  const wire::Trace t = network(8, 100, 200);
  CHECK(planned("sentinel_interval", t, two_tiers(5000)).entries.empty());
  const Machine m = two_tiers(700);
  const auto r =
      simulate(t, m, planned("sentinel_interval", t, m), {Victims::lru, StallRule::strict, 2, true, 0});
  const auto paged = simulate(t, m, {}, {Victims::lru, StallRule::strict, 2, false, 0});
  REQUIRE((r && paged));
  CHECK(r->total_us < paged->total_us);
}

TEST_CASE("A policy that needs a backward pass says so") {
  const wire::Trace t = step({tensor(10)}, {op(1, {}, {0})});
  for (const char* name : {"vdnn_all", "vdnn_conv", "flashneuron"}) {
    CHECK(policy(name).plan(t, two_tiers(100)).error.find("no gradient") != std::string::npos);
  }
}

TEST_CASE("Every policy's plan for random steps passes the judge, or says what does not fit") {
  std::uint32_t done = 0, recomputed = 0, reordered = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const wire::Trace t = random_step(random);
    const Machine m = roomy_machine(random, t);
    for (const SwapPolicy& p : swap_policies()) {
      const auto schedule = p.plan(t, m, {0, 0.1, {}});  // searches are kept short
      if (!schedule) continue;
      const auto r = simulate(t, m, *schedule, {schedule->victims, StallRule::strict, 2, true, 0});
      INFO("seed " << seed << " " << p.name << " " << r.error);
      wire::Schedule for_a_job = *schedule;
      reordered += for_a_job.operations.empty() ? 0 : 1;
      if (!for_a_job.operations.empty())
        REQUIRE_THAT(unlike_an_image(for_a_job, m), Catch::Contains("an order of its own"));
      for_a_job.operations.clear();
      REQUIRE_THAT(unlike_an_image(for_a_job, m), Catch::Equals(""));
      REQUIRE((r || schedule->victims == Victims::none));
      if (!r) continue;
      ++done;
      recomputed += r->recompute_us > 0 ? 1 : 0;
      REQUIRE_THAT(check_timeline(t, m, *r), Catch::Equals(""));
    }
  }
  CHECK(done > 2500);
  CHECK(recomputed > 20);
  CHECK(reordered > 20);
}

}  // namespace terrace::planner
