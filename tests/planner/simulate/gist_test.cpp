// Tensors that rest encoded inside the first tier: the simulator's account of them, Gist's plans, ours.
#include "daemon/planner/simulate/policies/gist.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "daemon/planner/order/scheduled.h"
#include "daemon/planner/schedule_period.h"
#include "daemon/planner/simulate/bound/step_bound.h"
#include "daemon/planner/simulate/program.h"
#include "tests/planner/simulate/beside_gist.h"
#include "tests/planner/simulate/random_plans.h"
#include "tests/planner/simulate/simulated.h"

namespace terrace::planner {
namespace {

using namespace test;
using Catch::Contains;
using wire::Action;
using wire::ScheduleEntry;

// A is made, B comes and goes, A is read: 200 bytes at once, and 150 while A is halved. What is halved takes
// 10 µs each way, and its way inside half a microsecond.
wire::Trace stash() {
  std::vector<wire::TraceTensor> tensors{tensor(100), tensor(100), tensor(1)};
  tensors[0].sparsity = 0.5;
  tensors[2].kind = wire::TensorKind::gradient;
  return step(tensors, {op(10, {}, {0}), op(10, {}, {1}), op(10, {1}, {}), op(10, {0}, {2})});
}

Machine encoding(std::uint64_t capacity_bytes) {
  Machine m;
  m.name = "encoding";
  m.tiers = {{"gpu", capacity_bytes}};
  m.codecs = {{"zeros", 10e6, 10e6, 1, true, 0}};
  return with_tier_inside(m, 100e6);
}

bool encodes(const wire::Schedule& schedule, const Machine& machine) {
  return std::any_of(schedule.entries.begin(), schedule.entries.end(), [&](const ScheduleEntry& e) {
    return e.action == Action::out && machine.is_inside(e.tier);
  });
}

std::string why_not(const wire::Trace& trace, const Machine& machine) {
  return swap_policy("gist")->plan(trace, machine).error;
}

}  // namespace

TEST_CASE("What rests encoded takes its coded form's bytes of the first tier, and the codec's time") {
  const wire::Trace t = stash();
  const auto plan = swap_policy("gist")->plan(t, encoding(151));
  REQUIRE(plan);
  REQUIRE(plan->entries.size() == 2);
  CHECK(plan->entries[0].at == 1);
  CHECK(plan->entries[0].codec == 1);
  CHECK(plan->entries[1].at == 3);
  CHECK(plan->entries[1].action == Action::in);
  CHECK(plan->period == t.ops.size());
  SimulationOptions options;
  options.record_timeline = true;
  const auto r = simulate(t, encoding(151), *plan, options);
  REQUIRE(r);
  CHECK_THAT(check_timeline(t, encoding(151), *r), Catch::Equals(""));
  // 10, encoding 10, its way 0.5, 10, 10, its way back 0.5, decoding 10, 10.
  CHECK(r->total_us == Approx(61));
  CHECK(r->codec_us == Approx(20));
  CHECK(r->tier_peak_bytes == std::vector<std::uint64_t>{150, 50});
  CHECK(r->ops[1].stalls.room_us == Approx(0.5));
}

TEST_CASE("What needs both forms at once does not fit where one does") {
  const auto plan = swap_policy("gist")->plan(stash(), encoding(200));
  REQUIRE(plan);
  CHECK(simulate(stash(), encoding(150), *plan));
  const auto r = simulate(stash(), encoding(149), *plan);
  REQUIRE_FALSE(r);
  CHECK_THAT(r.error, Contains("nothing on its way frees room"));
}

TEST_CASE("A form that is larger than its tensor gains nothing, and is decoded all the same") {
  const wire::Trace t = step({tensor(100), tensor(100), tensor(100)},
                             {op(10, {}, {0}), op(10, {}, {1}), op(10, {}, {2}), op(10, {0, 1}, {})});
  Machine m = two_tiers(320);
  m.codecs = {{"zeros", 10e6, 10e6, 1, true, 0.1}};
  m = with_tier_inside(m, 1e6);
  SimulationOptions options;
  options.victims = Victims::lru;
  const SimulationReport r = simulated(t, m, {{1, 0, Action::out, 2, 1}}, options);
  CHECK(r.tier_peak_bytes == std::vector<std::uint64_t>{310, 0, 110});
  CHECK(r.codec_us == Approx(20));
}

TEST_CASE("What came in one codec's form leaves in that form, not by a codec that works on the way") {
  const wire::Trace t = stash();
  Machine m = encoding(1000);
  m.codecs.push_back({"half", 1e9, 1e9, 0.5, false, 0, true});
  SimulationOptions options;
  options.record_timeline = true;
  // Operation 3 reads it as it sets off, so that it is decoded once more by the first codec: 10 us.
  const SimulationReport r = simulated(
      t, m, {{1, 0, Action::out, 1, 1}, {2, 0, Action::in, 1, {}}, {3, 0, Action::out, 1, 2}}, options);
  CHECK_THAT(check_timeline(t, m, r), Catch::Equals(""));
  CHECK(r.codec_us == Approx(20));
}

TEST_CASE("A judge that is told less memory than the coded form takes, says so") {
  const wire::Trace t = stash();
  const auto plan = swap_policy("gist")->plan(t, encoding(200));
  SimulationOptions options;
  options.record_timeline = true;
  auto r = simulate(t, encoding(200), *plan, options);
  REQUIRE(r);
  CHECK_THAT(check_timeline(t, encoding(149), *r), Contains("more than it has"));
  r->memory[r->memory.size() / 2].tier_bytes[0] -= 50;
  CHECK_THAT(check_timeline(t, encoding(200), *r), Contains("sampled memory"));
}

TEST_CASE("What a policy says of a tensor's forms is said of the tensor, and none leaves twice") {
  // In the stand-in encoding is operation 1, decoding 4; A is 0, what is decoded 3, the encoded form 4.
  const wire::Trace t = stash();
  Machine m = two_tiers(300);
  m.codecs = encoding(300).codecs;
  m = with_tier_inside(m, 100e6);
  const EncodedStep step(t, m);
  REQUIRE(step.stand_in().ops.size() == 6);
  REQUIRE(step.stand_in().tensors.size() == 5);
  SwapPlan plan;
  plan.entries = {{2, 0, Action::drop},
                  {3, 0, Action::redo},
                  {3, 4, Action::out, 1},
                  {4, 4, Action::in, 1},
                  {5, 3, Action::wait}};
  const SwapPlan made = step.translated(plan);
  REQUIRE(made.entries.size() == 5);
  const auto is = [&](std::size_t i, std::uint32_t at, Action action, std::uint32_t codec) {
    const ScheduleEntry& e = made.entries[i];
    return e.object == 0 && e.at == at && e.action == action && e.codec == codec &&
           (e.action == Action::wait || e.tier == 1);
  };
  CHECK(is(0, 1, Action::out, 1));  // encoded, and on its way at once
  CHECK(is(1, 1, Action::out, 1));  // dropped in the stand-in
  CHECK(is(2, 2, Action::in, 0));   // made again there
  CHECK(is(3, 3, Action::in, 0));
  CHECK(is(4, 3, Action::wait, 0));
}

TEST_CASE("Gist says what it lacks") {
  const wire::Trace t = stash();
  Machine m = encoding(200);
  m.codecs.clear();
  CHECK_THAT(why_not(t, m), Contains("no codec that drops zeros"));
  m = encoding(200);
  m.routes.clear();
  CHECK_THAT(why_not(t, m), Contains("no tier inside its first one"));
  wire::Trace dense = t;
  dense.tensors[0].sparsity = 0;
  CHECK_THAT(why_not(dense, encoding(200)), Contains("zeros enough"));
  wire::Trace forward = t;
  forward.tensors[2].kind = wire::TensorKind::activation;
  CHECK_THAT(why_not(forward, encoding(200)), Contains("between its forward and its backward pass"));
}

TEST_CASE("Machines and entries with a tier inside are checked") {
  const wire::Trace t = stash();
  wire::Schedule nothing{t.name, "none", {}};
  Machine m = encoding(300);
  m.tiers[0].inside = true;
  CHECK_THAT(simulate(t, m, nothing).error, Contains("inside itself"));
  CHECK_THAT(simulate(t, with_tier_inside(encoding(300), 1e6), nothing).error, Contains("two tiers"));
  SimulationOptions options;
  options.initial_tier = 1;
  CHECK_THAT(simulate(t, encoding(300), nothing, options).error, Contains("inside tier 0"));
  wire::Schedule plain = nothing;
  plain.entries.push_back({1, 0, Action::out, 1});
  CHECK_THAT(simulate(t, encoding(300), plain).error, Contains("needs a codec"));
}

TEST_CASE("What no entry names is never sent inside, and persistent tensors do not begin there") {
  const wire::Trace t =
      step({tensor(60, true), tensor(60), tensor(60)}, {op(1, {}, {1}), op(1, {0}, {2}), op(1, {1}, {})});
  wire::Schedule nothing{t.name, "none", {}};
  SimulationOptions options;
  options.victims = Victims::lru;
  const auto r = simulate(t, encoding(120), nothing, options);
  REQUIRE_FALSE(r);
  CHECK_THAT(r.error, Contains("no other tier has room"));
  const wire::Trace weights = step({tensor(100, true), tensor(100, true)}, {op(1, {0}, {}), op(1, {1}, {})});
  CHECK_THAT(simulate(weights, encoding(150), nothing, options).error, Contains("has no room"));
}

TEST_CASE("Random plans that encode inside pass the judge under every rule, and obey the bounds") {
  std::uint32_t ran = 0, encoded = 0;
  for (std::uint64_t seed = 0; seed < 6000; ++seed) {
    Random random(seed);
    const wire::Trace t = random_step(random);
    Machine m = with_tier_inside(roomy_machine(random, t), 50e6);
    m.codecs[0].overlaps = seed % 3 == 1;
    m.codecs[1].overlaps = seed % 5 == 1;
    const wire::Schedule schedule = random_schedule(random, t, m, 5 + static_cast<std::uint32_t>(seed % 40));
    INFO("seed " << seed);
    for (const Victims victims : {Victims::none, Victims::lru, Victims::fifo, Victims::belady}) {
      SimulationOptions options;
      options.victims = victims;
      options.steps = 1 + static_cast<std::uint32_t>(seed % 2);
      options.record_timeline = true;
      const auto r = simulate(t, m, schedule, options);
      if (!r) continue;
      ++ran;
      encoded += r->tier_peak_bytes.back() > 0 ? 1 : 0;
      REQUIRE_THAT(check_timeline(t, m, *r), Catch::Equals(""));
      if (options.steps == 1 && seed % 10 == 0)
        REQUIRE(step_bound(t, m, {.recomputes = true}).step_us <= r->total_us * (1 + 1e-9));
    }
  }
  CHECK(ran > 3000);
  CHECK(encoded > 1000);
}

TEST_CASE("Every policy's plan for encoded rests can be carried out, and some fit where none did before") {
  std::uint32_t ran = 0, fits_only_encoded = 0, faster = 0, moved_encoded = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    Random random(seed);
    const wire::Trace t = random_step(random);
    Machine m = with_tier_inside(roomy_machine(random, t), 1e9);
    m.codecs[1].overlaps = seed % 4 == 1;
    if (!nothing_to_encode(t, m).empty()) continue;
    REQUIRE_THAT(check_trace(EncodedStep(t, m).stand_in()), Catch::Equals(""));
    for (const SwapPolicy& p : published_swap_policies()) {
      if (p.coding != Coding::as_planned) continue;
      INFO("seed " << seed << " " << p.name);
      const auto plan = swap_policy(p.name + "+gist")->plan(t, m, brief);
      if (plan) REQUIRE(plan->policy == p.name + "+gist");
      const double plain_us = planned_us(t, m, p.plan(t, m, brief));
      const double encoded_us = planned_us(t, m, plan);
      if (encoded_us == never_us) continue;
      REQUIRE(std::any_of(plan->entries.begin(), plan->entries.end(),
                          [](const ScheduleEntry& e) { return e.codec != 0; }));
      ++ran;
      fits_only_encoded += plain_us == never_us ? 1 : 0;
      faster += encoded_us < plain_us && plain_us < never_us ? 1 : 0;
      moved_encoded += std::any_of(plan->entries.begin(), plan->entries.end(), [&](const ScheduleEntry& e) {
        return e.action == Action::out && e.codec != 0 && !m.is_inside(e.tier);
      });
    }
  }
  CHECK(ran > 300);
  CHECK(fits_only_encoded > 10);
  CHECK(faster > 50);
  CHECK(moved_encoded > 10);
}

TEST_CASE("The joint search encodes where nothing else helps, and is never slower than Gist's plan") {
  wire::Trace t = stash();
  t.ops[0].recomputable = false;
  SwapControl as_recorded;
  as_recorded.keeps_order = true;  // another order would need less
  const auto plan = swap_policy("joint")->plan(t, encoding(151), as_recorded);
  REQUIRE(plan);
  CHECK(encodes(*plan, encoding(151)));
  CHECK(planned_us(t, encoding(151), plan) <= 61 * (1 + 1e-9));
  BesideGist beside;
  const auto slow_codec = [](Machine* m) {
    m->codecs[1].compress_bytes_per_second = m->codecs[1].decompress_bytes_per_second = 100e6;
  };
  beside.add_random(
      1000, [](Random& random) { return random_step(random); }, slow_codec, encodes);
  CHECK(beside.compared > 10);
  CHECK(beside.ours_alone > 10);
  CHECK(beside.encoded > 10);
}

}  // namespace terrace::planner
