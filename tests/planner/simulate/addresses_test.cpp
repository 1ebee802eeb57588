// Addresses of plans: what lies in tier 0 is told content by content, its peak is the report's, it is placed
// and checked, and the joint search answers plans that have room for their addresses.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <utility>
#include <vector>

#include "daemon/planner/reuse/search/search.h"
#include "daemon/planner/simulate/addresses/addresses.h"
#include "daemon/planner/simulate/addresses/arcs.h"
#include "daemon/planner/simulate/addresses/fitting.h"
#include "daemon/planner/simulate/joint/joint.h"
#include "tests/planner/simulate/random_plans.h"
#include "tests/planner/simulate/simulated.h"

namespace terrace::planner {
namespace {

using namespace test;
using Catch::Contains;
using wire::Action;

// The timeline is judged before: stays are what lay there.
void check_peak_and_addresses(const wire::Trace& trace, const Machine& machine,
                              const SimulationReport& report) {
  REQUIRE_THAT(check_timeline(trace, machine, report), Catch::Equals(""));
  REQUIRE(max_live_bytes(instance_of(report).buffers) == report.tier_peak_bytes[0]);
  const auto addresses = addresses_of(machine, report);
  INFO(addresses.error);
  REQUIRE(addresses);
  REQUIRE_THAT(check_addresses(report, *addresses), Catch::Equals(""));
  REQUIRE(addresses->peak_bytes == report.tier_peak_bytes[0]);
  REQUIRE(addresses->needed_bytes >= addresses->peak_bytes);
  REQUIRE(addresses->fit == (addresses->needed_bytes <= machine.tiers[0].capacity_bytes));
  REQUIRE((addresses->fit || !addresses->repeat));
}

// Eight contents with at most 800 bytes at once, which no addresses within 800 hold. No operation names more
// than 500.
//
//     operation   0    1    2    3    4    5    6    7    8    9
//     0   400     x    x    x    x    x
//     1   100          x    x    x    x    x    x    x
//     2   300               x
//     3   100                    x    x    x
//     4   100                         x    x    x
//     5   200                              x    x    x
//     6   400                                   x    x    x    x
//     7   400                                             x
wire::Trace fragmenting() {
  return step(
      {tensor(400), tensor(100), tensor(300), tensor(100), tensor(100), tensor(200), tensor(400),
       tensor(400)},
      {op(500, {}, {0}), op(500, {}, {1}), op(500, {}, {2}), op(500, {}, {3}), op(500, {0}, {4}),
       op(500, {3}, {5}), op(500, {4}, {6}), op(500, {1, 5}, {}), op(500, {}, {7}), op(500, {6}, {})});
}

SimulationReport repeated_step(const wire::Trace& trace, const Machine& machine, const SwapPlan& plan) {
  auto report = simulate_repeated(trace, machine, plan, plan.victims, true);
  INFO(report.error);
  REQUIRE(report);
  return std::move(*report);
}

const Stay& stay_of(const SimulationReport& report, std::uint32_t tensor, bool coded = false) {
  const auto found = std::find_if(report.stays.begin(), report.stays.end(),
                                  [&](const Stay& s) { return s.tensor == tensor && s.coded == coded; });
  REQUIRE(found != report.stays.end());
  return *found;
}

}  // namespace

TEST_CASE("Random plans: the most bytes of their stays are the peak, and their addresses hold") {
  std::uint32_t done = 0, repeat = 0, aborted = 0, coded = 0;
  for (std::uint64_t seed = 0; seed < 6000; ++seed) {
    Random random(seed);
    const wire::Trace trace = random_step(random);
    Machine machine = random_machine(random, trace);
    if (seed % 3 == 0) machine = with_tier_inside(std::move(machine), 1e6);
    const wire::Schedule schedule =
        random_schedule(random, trace, machine, static_cast<std::uint32_t>(random() % 40));
    SimulationOptions options;
    options.victims = static_cast<Victims>(seed % 4);
    options.stall_rule = static_cast<StallRule>(seed / 4 % 2);
    options.steps = 1 + static_cast<std::uint32_t>(seed % 3);
    options.record_timeline = true;
    const auto report = simulate(trace, machine, schedule, options);
    if (!report) continue;
    INFO("seed " << seed);
    ++done;
    REQUIRE(max_live_bytes(instance_of(*report).buffers) == report->tier_peak_bytes[0]);
    if (done % 8 == 0) check_peak_and_addresses(trace, machine, *report);
    repeat += addresses::repeated(*report) ? 1 : 0;
    aborted += std::any_of(report->transfers.begin(), report->transfers.end(),
                           [](const Transfer& t) { return t.aborted; });
    coded += std::any_of(report->stays.begin(), report->stays.end(), [](const Stay& s) { return s.coded; });
  }
  CHECK(done > 800);
  CHECK(repeat > 100);
  CHECK(aborted > 20);
  CHECK(coded > 20);
}

TEST_CASE("Every policy's plans: the most bytes of their stays are the peak, and their addresses hold") {
  for (std::uint64_t seed = 0; seed < 15; ++seed) {
    Random random(seed);
    const wire::Trace trace = random_step(random);
    const Machine machine = roomy_machine(random, trace);
    for (const SwapPolicy& policy : swap_policies()) {
      const auto plan = policy.plan(trace, machine, brief);
      if (!plan) continue;
      const auto report = simulate_repeated(trace, machine, *plan, plan->victims, true);
      if (!report) continue;
      INFO("seed " << seed << " " << policy.name);
      check_peak_and_addresses(trace, machine, *report);
    }
  }
}

TEST_CASE("What a recomputation does not keep, and a workspace, are buffers of their own") {
  const wire::Trace trace =
      step({tensor(10), tensor(20), tensor(30)},
           {op(10, {}, {0}), op(10, {0}, {1, 2}, 7), op(10, {1, 2}, {}), op(10, {1, 0}, {})});
  const SimulationReport report =
      simulated(trace, two_tiers(100), {{3, 1, Action::drop, 0, {}}, {3, 1, Action::redo, 0, {}}});
  std::vector<std::uint64_t> of_runs;
  for (const Stay& s : report.stays)
    if (s.tensor == Stay::of_a_run) of_runs.push_back(s.bytes);
  CHECK(of_runs == std::vector<std::uint64_t>{7, 30, 7});
  check_peak_and_addresses(trace, two_tiers(100), report);
}

TEST_CASE("A coded content inside tier 0 has an address beside its tensor's while it is made") {
  const wire::Trace trace = step({tensor(100), tensor(100), tensor(10)},
                                 {op(10, {}, {0}), op(50, {}, {2}), op(10, {}, {1}), op(10, {0}, {})});
  Machine machine = two_tiers(160);
  machine.codecs = {{"half", 10e6, 10e6, 0.5, false, 0}};
  machine = with_tier_inside(machine, 10e6);
  const SimulationReport report =
      simulated(trace, machine, {{1, 0, Action::out, 2, 1}, {3, 0, Action::in, 2, {}}});
  const Stay& form = stay_of(report, 0, true);
  const Stay& whole = stay_of(report, 0);
  CHECK(form.bytes == 50);
  CHECK(form.from < whole.until);
  CHECK(form.from_us < whole.until_us);
  check_peak_and_addresses(trace, machine, report);
  const auto addresses = addresses_of(machine, report);
  REQUIRE(addresses);
  CHECK(addresses->fit);
}

TEST_CASE("A transfer that is aborted gives back at once the memory that it took") {
  // It comes from the host for 100 µs, and is dropped after 10.
  const wire::Trace trace =
      step({tensor(100), tensor(50)},
           {op(10, {}, {0}), op(200, {}, {1}), op(10, {}, {1}), op(10, {1}, {}), op(10, {}, {0})});
  const SimulationReport report =
      simulated(trace, two_tiers(200),
                {{1, 0, Action::out, 1, {}}, {2, 0, Action::in, 1, {}}, {3, 0, Action::drop, 0, {}}});
  REQUIRE(std::any_of(report.transfers.begin(), report.transfers.end(),
                      [](const Transfer& t) { return t.in && t.aborted; }));
  std::vector<std::pair<double, double>> lay;
  for (const Stay& s : report.stays)
    if (s.tensor == 0) lay.emplace_back(s.from_us, s.until_us);
  CHECK(lay == std::vector<std::pair<double, double>>{{0, 110}, {210, 220}, {230, 240}});
  check_peak_and_addresses(trace, two_tiers(200), report);
}

TEST_CASE("What stays across the step's end is one buffer, and the step is cut where least lies") {
  // 0 leaves after its first use and is back for its last: in the middle its room is free.
  const wire::Trace trace =
      step({tensor(100, true), tensor(100), tensor(40, true)},
           {op(10, {0, 2}, {}), op(300, {2}, {}), op(10, {}, {1}), op(300, {1}, {}), op(10, {0, 2}, {0})});
  const SwapPlan plan{{trace.name, "by hand", {{1, 0, Action::out, 1, {}}, {4, 0, Action::in, 1, {}}}},
                      Victims::none};
  const SimulationReport report = repeated_step(trace, two_tiers(140), plan);
  const auto arcs = addresses::repeated(report);
  REQUIRE(arcs);
  // Where both tensors are away nothing is met by the cut, so that it costs no room.
  CHECK(max_live_bytes(arcs->instance.buffers) == 140);
  const auto addresses = addresses_of(two_tiers(140), report);
  REQUIRE(addresses);
  CHECK(addresses->fit);
  CHECK(addresses->repeat);
  CHECK(addresses->needed_bytes == 140);
}

TEST_CASE("A step that does not end as it began is placed by itself") {
  const wire::Trace trace = step({tensor(100, true)}, {op(10, {0}, {}), op(200, {}, {})});
  const SimulationReport report = simulated(trace, two_tiers(140), {{1, 0, Action::out, 1, {}}});
  CHECK_FALSE(addresses::repeated(report));
  const auto addresses = addresses_of(two_tiers(140), report);
  REQUIRE(addresses);
  CHECK(addresses->fit);
  CHECK_FALSE(addresses->repeat);
}

TEST_CASE("Wrong addresses are seen") {
  const wire::Trace trace = step({tensor(100, true), tensor(50)}, {op(10, {0}, {1}), op(10, {1}, {0})});
  const SimulationReport report = simulated(trace, two_tiers(150), {});
  const auto sound = addresses_of(two_tiers(150), report);
  REQUIRE(sound);
  REQUIRE(sound->repeat);
  Addresses overlapping = *sound;
  for (std::uint64_t& offset : overlapping.offsets) offset = 0;
  CHECK_THAT(check_addresses(report, overlapping), Contains("overlap"));
  Addresses short_of_room = *sound;
  short_of_room.needed_bytes -= 1;
  CHECK_FALSE(check_addresses(report, short_of_room).empty());
  Addresses other_peak = *sound;
  other_peak.peak_bytes += 1;
  CHECK_THAT(check_addresses(report, other_peak), Contains("most bytes at once"));
  // A persistent content that leaves and comes back, at another address.
  const SwapPlan moving{{trace.name, "by hand", {{1, 0, Action::out, 1, {}}}}, Victims::lru};
  const SimulationReport moved = repeated_step(
      step({tensor(100, true), tensor(50)}, {op(10, {0}, {1}), op(300, {1}, {}), op(10, {0}, {0})}),
      two_tiers(300), moving);
  auto twice = addresses_of(two_tiers(300), moved);
  REQUIRE(twice);
  REQUIRE(twice->repeat);
  for (std::size_t i = 0; i < moved.stays.size(); ++i)
    if (moved.stays[i].tensor == 0 && moved.stays[i].from == 0) twice->offsets[i] += 150;
  twice->needed_bytes = 300;
  CHECK_THAT(check_addresses(moved, *twice), Contains("another address"));
}

TEST_CASE("Damage to stays is seen by the judge of timelines") {
  const wire::Trace trace = fragmenting();
  const Machine machine = two_tiers(800);
  const SimulationReport sound = simulated(trace, machine, {});
  const auto damaged = [&](const std::function<void(std::vector<Stay>&)>& damage) {
    SimulationReport report = sound;
    damage(report.stays);
    return check_timeline(trace, machine, report);
  };
  CHECK_THAT(damaged([](auto& s) { s.pop_back(); }), Contains("is not told"));
  CHECK_THAT(damaged([](auto& s) { s.push_back(s.back()); }), Contains("is told"));
  CHECK_THAT(damaged([](auto& s) { s[2].bytes -= 1; }), Contains("stays in tier 0 are not what lay there"));
  CHECK_THAT(damaged([](auto& s) { s[2].until_us += 1; }),
             Contains("stays in tier 0 are not what lay there"));
  CHECK_THAT(damaged([](auto& s) { s.push_back(s.back()), s.back().tensor = 1000; }),
             Contains("does not exist"));
  CHECK_THAT(damaged([](auto& s) { s[0].until = s[0].from; }), Contains("numbered"));
  CHECK_THAT(damaged([](auto& s) { s.back().from = 1; }), Contains("numbered"));
}

TEST_CASE("Where bytes fit and addresses do not, the joint search plans for less") {
  const wire::Trace trace = fragmenting();
  Machine machine = two_tiers(800);
  const auto keep = swap_policy("keep")->plan(trace, machine);
  REQUIRE(keep);
  const SimulationReport kept = repeated_step(trace, machine, *keep);
  CHECK(kept.tier_peak_bytes[0] == 800);
  // Shown by the exact search, which no placement of ours can get around.
  CHECK(search::solve(instance_of(kept), 800).verdict == search::Verdict::infeasible);
  const auto too_many = addresses_of(machine, kept);
  REQUIRE(too_many);
  CHECK_FALSE(too_many->fit);
  CHECK(too_many->needed_bytes > 800);

  const auto plan = joint::plan_jointly(trace, machine, {});
  REQUIRE(plan);
  CHECK(plan->policy == "joint");
  const auto addresses = addresses_of(trace, machine, *plan);
  REQUIRE(addresses);
  CHECK(addresses->fit);
  const SimulationReport report = repeated_step(trace, machine, *plan);
  CHECK_THAT(check_timeline(trace, machine, report), Catch::Equals(""));
  CHECK(report.total_us > kept.total_us - 1e-6);

  machine.tiers[0].paged = true;  // then addresses do not count
  const auto by_bytes = joint::plan_jointly(trace, machine, {});
  REQUIRE(by_bytes);
  CHECK(joint::planned_step_us(trace, machine, *by_bytes) == Approx(kept.total_us));
}

TEST_CASE(
    "The joint search is never slower than a published plan whose addresses fit, and the same each time") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Random random(seed);
    const wire::Trace trace = random_step(random);
    const Machine machine = roomy_machine(random, trace);
    const auto plan = joint::plan_jointly(trace, machine, brief);
    if (!plan) continue;
    INFO("seed " << seed);
    const double joint_us = joint::planned_step_us(trace, machine, *plan);
    const auto addresses = addresses_of(trace, machine, *plan);
    REQUIRE(addresses);
    for (const SwapPolicy& policy : published_swap_policies()) {
      const auto published = policy.plan(trace, machine);
      if (!published) continue;
      const auto theirs = addresses_of(trace, machine, *published);
      if (!theirs || !theirs->fit) continue;
      INFO(policy.name);
      REQUIRE(addresses->fit);
      REQUIRE(joint_us <= joint::planned_step_us(trace, machine, *published) * (1 + 1e-9));
    }
    if (seed % 10 != 0) continue;
    const auto again = joint::plan_jointly(trace, machine, brief);
    REQUIRE(again);
    CHECK(again->spare_bytes == plan->spare_bytes);
    CHECK(joint::planned_step_us(trace, machine, *again) == joint_us);
  }
}

TEST_CASE("A plan that spares something is changed sparing as much") {
  int spared = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    Random random(seed);
    const wire::Trace trace = random_step(random);
    const Machine machine = roomy_machine(random, trace);
    const auto plan = joint::plan_jointly(trace, machine, brief);
    if (!plan || plan->spare_bytes == 0) continue;
    ++spared;
    SwapControl from = brief;
    from.from = &*plan;
    const auto again = joint::plan_jointly(trace, machine, from);
    INFO("seed " << seed);
    REQUIRE(again);
    CHECK(again->spare_bytes == plan->spare_bytes);
    const auto addresses = addresses_of(trace, machine, *again);
    REQUIRE(addresses);
    CHECK(addresses->fit);
    CHECK(joint::planned_step_us(trace, machine, *again) <=
          joint::planned_step_us(trace, machine, *plan) * (1 + 1e-9));
  }
  CHECK(spared >= 3);
}

TEST_CASE("Where no smaller tier and no published plan helps, the plan by bytes is answered") {
  // The largest operation fills tier 0, with contents that lay there before.
  const wire::Trace trace = fragmenting();
  const Machine machine = two_tiers(800);
  const auto never_smaller = [](const wire::Trace& t, const Machine& m, const SwapControl&) {
    if (m.tiers[0].capacity_bytes < 800) return refused<SwapPlan>("too small");
    SwapPlan plan{{t.name, "by bytes", {}}, Victims::none};
    return ok(std::move(plan));
  };
  Machine alone = machine;  // nothing can move, and every published policy keeps all or has no plan
  alone.tiers.resize(1);
  alone.links.clear();
  alone.routes.clear();
  const auto plan = plan_with_addresses(trace, alone, {}, never_smaller);
  REQUIRE(plan);
  CHECK(plan->policy == "by bytes");
  CHECK(plan->spare_bytes == 0);
  const auto addresses = addresses_of(trace, alone, *plan);
  REQUIRE(addresses);
  CHECK_FALSE(addresses->fit);
}

TEST_CASE("A schedule that leaves memory free runs as on a machine with less") {
  const wire::Trace trace = fragmenting();
  wire::Schedule sparing{trace.name, "by hand", {}};
  sparing.spare_bytes = 1;
  CHECK(simulate(trace, two_tiers(801), sparing));
  const auto refused_one = simulate(trace, two_tiers(800), sparing);
  REQUIRE_FALSE(refused_one);
  CHECK_THAT(refused_one.error, Contains("799 bytes"));
  sparing.spare_bytes = 800;
  const auto refused_all = simulate(trace, two_tiers(800), sparing);
  REQUIRE_FALSE(refused_all);
  CHECK_THAT(refused_all.error, Contains("leaves 800 bytes"));
}

}  // namespace terrace::planner
