// Far routes: what moves between two tiers beyond the first one.
#include <algorithm>
#include <catch2/catch.hpp>

#include "daemon/planner/simulate/joint/joint.h"
#include "tests/planner/simulate/random_plans.h"
#include "tests/planner/simulate/simulated.h"

namespace terrace::planner {
namespace {

using namespace test;
using wire::Action;

// Host over the first link at 10 bytes/µs; SSD behind it at 4; between these two the second link alone.
Machine joined_tiers(std::uint64_t capacity_bytes = 1000) {
  Machine m = two_tiers(capacity_bytes);
  m.tiers.push_back({"ssd", unlimited_bytes});
  m.links = {{"pcie", 10e6, 10e6, 0, 0}, {"ssd", 4e6, 4e6, 0, 0}};
  m.routes = {{1, {0}}, {2, {0, 1}}};
  m.far_routes = {{1, 2, {1}}};
  return m;
}

// Tensor 0 rests between two operations of 100 µs, and is read by the last one.
wire::Trace one_that_rests() {
  return step({tensor(100), tensor(1)},
              {op(0, {}, {0}), op(100, {}, {1}), op(100, {1}, {}), op(10, {0}, {})});
}

const Transfer& aside(const SimulationReport& r, std::size_t nth) {
  std::size_t seen = 0;
  for (const Transfer& t : r.transfers)
    if (t.from != 0 && seen++ == nth) return t;
  FAIL("there is no such transfer");
  return r.transfers.front();
}

std::size_t asides(const SimulationReport& r) {
  return static_cast<std::size_t>(
      std::count_if(r.transfers.begin(), r.transfers.end(), [](const Transfer& t) { return t.from != 0; }));
}

std::uint32_t below(Random& random, std::uint64_t limit) {
  return static_cast<std::uint32_t>(random() % limit);
}

// Random entries, among them stages behind some of what moves and anywhere else.
wire::Schedule with_stages(Random& random, const Machine& machine, wire::Schedule schedule) {
  std::vector<wire::ScheduleEntry> entries;
  for (const wire::ScheduleEntry& e : schedule.entries) {
    entries.push_back(e);
    for (std::uint32_t more = below(random, 3); wire::moves(e.action) && more > 0; --more)
      entries.push_back({e.at, e.object, Action::stage, 1 + below(random, machine.routes.size()), 0});
  }
  schedule.entries = std::move(entries);
  return schedule;
}

}  // namespace

TEST_CASE("What left for one far tier moves on to another, and comes back the same way") {
  const auto r = simulated(one_that_rests(), joined_tiers(),
                           {{1, 0, Action::out, 1, {}},
                            {1, 0, Action::stage, 2, {}},
                            {2, 0, Action::stage, 1, {}},
                            {3, 0, Action::in, 1, {}}});
  REQUIRE(r.transfers.size() == 4);
  CHECK(r.transfers[0].end_us == Approx(10));
  const Transfer& there = r.transfers[1];
  CHECK((there.from == 1 && there.tier == 2 && !there.in));
  CHECK(there.start_us == Approx(10));
  CHECK(there.end_us == Approx(35));
  const Transfer& back = r.transfers[2];
  CHECK((back.from == 2 && back.tier == 1 && back.in));
  CHECK(back.start_us == Approx(100));
  CHECK(back.end_us == Approx(125));
  CHECK(r.total_us == Approx(220));  // 10 of them for the last transfer alone
  CHECK(r.links[0].out_bytes == Approx(100));
  CHECK(r.links[0].in_bytes == Approx(100));
  CHECK(r.links[1].out_bytes == Approx(100));
  CHECK(r.links[1].in_bytes == Approx(100));
  CHECK(r.tier_peak_bytes[1] == 100);
  CHECK(r.tier_peak_bytes[2] == 100);
}

TEST_CASE("Room is taken where it goes when it starts, and is free where it came from when it ends") {
  const auto r =
      simulated(one_that_rests(), joined_tiers(), {{1, 0, Action::out, 1, {}}, {1, 0, Action::stage, 2, {}}});
  const auto at = [&](double time_us) {
    const MemorySample* last = nullptr;
    for (const MemorySample& sample : r.memory)
      if (sample.time_us <= time_us) last = &sample;
    REQUIRE(last != nullptr);
    return last->tier_bytes;
  };
  CHECK(at(9) == std::vector<std::uint64_t>{101, 100, 0});
  CHECK(at(20) == std::vector<std::uint64_t>{1, 100, 100});
  CHECK(at(40) == std::vector<std::uint64_t>{1, 0, 100});
}

TEST_CASE("Who asks for a tensor calls off a stage that waits, and waits for one under way") {
  Machine m = joined_tiers();
  m.tiers[2].capacity_bytes = 50;  // there is no room: the stage waits
  auto r = simulated(one_that_rests(), m,
                     {{1, 0, Action::out, 1, {}}, {1, 0, Action::stage, 2, {}}, {3, 0, Action::in, 2, {}}});
  CHECK(asides(r) == 0);
  CHECK(r.total_us == Approx(220));
  m.tiers[2].capacity_bytes = unlimited_bytes;
  m.links[1].out_bytes_per_second = 0.5e6;  // 200 µs: until 210
  r = simulated(one_that_rests(), m, {{1, 0, Action::out, 1, {}}, {1, 0, Action::stage, 2, {}}});
  REQUIRE(asides(r) == 1);
  CHECK(r.transfers.back().start_us == Approx(210));
  CHECK(r.transfers.back().tier == 2);
  CHECK(r.total_us == Approx(210 + 25 + 10));
}

TEST_CASE("A new stage takes the place of one that waits; one to where it lies calls it off") {
  Machine m = joined_tiers();
  m.tiers.push_back({"remote", unlimited_bytes});
  m.links.push_back({"net", 2e6, 2e6, 0, 0});
  m.routes.push_back({3, {2}});
  m.far_routes.push_back({1, 3, {2}});
  const auto plan = [&](std::uint32_t second) {
    return simulated(
        one_that_rests(), m,
        {{1, 0, Action::out, 1, {}}, {1, 0, Action::stage, 2, {}}, {1, 0, Action::stage, second, {}}});
  };
  CHECK(aside(plan(3), 0).tier == 3);
  CHECK(asides(plan(3)) == 1);
  CHECK(asides(plan(1)) == 0);
}

TEST_CASE("What dies or is written over while it is staged ends the transfer") {
  const wire::Trace t =
      step({tensor(100), tensor(1)}, {op(0, {}, {0}), op(20, {}, {1}), op(100, {1}, {0}), op(10, {0}, {})});
  const auto r = simulated(t, joined_tiers(), {{1, 0, Action::out, 1, {}}, {1, 0, Action::stage, 2, {}}});
  REQUIRE(asides(r) == 1);
  CHECK(aside(r, 0).aborted);
  CHECK(aside(r, 0).end_us == Approx(20));
  CHECK(r.memory.back().tier_bytes == std::vector<std::uint64_t>{0, 0, 0});
  const auto dropped =
      simulated(t, joined_tiers(),
                {{1, 0, Action::out, 1, {}}, {1, 0, Action::stage, 2, {}}, {2, 0, Action::drop, 0, {}}});
  CHECK(aside(dropped, 0).aborted);
}

TEST_CASE("What has no room where it goes, or is not there yet, is passed by") {
  Machine m = joined_tiers();
  m.tiers[2].capacity_bytes = 60;
  const wire::Trace t = step({tensor(100), tensor(50), tensor(1)},
                             {op(0, {}, {0, 1}), op(200, {}, {2}), op(10, {0, 1, 2}, {})});
  const auto r = simulated(t, m,
                           {{1, 0, Action::out, 1, {}},
                            {1, 1, Action::out, 1, {}},
                            {1, 0, Action::stage, 2, {}},
                            {1, 1, Action::stage, 2, {}}});
  REQUIRE(asides(r) == 1);
  CHECK(aside(r, 0).tensor == 1);
  CHECK(aside(r, 0).start_us == Approx(15));
}

TEST_CASE("A stage shares links with other routes, and a wait waits for it") {
  const wire::Trace t = step({tensor(100), tensor(100), tensor(1)},
                             {op(0, {}, {0, 1}), op(10, {}, {2}), op(0, {2}, {}), op(10, {0, 1}, {})});
  const auto r = simulated(t, joined_tiers(),
                           {{1, 0, Action::out, 1, {}},
                            {1, 0, Action::stage, 2, {}},
                            {2, 1, Action::out, 2, {}},
                            {3, 0, Action::wait, 0, {}}});
  // The host has tensor 0 at 10; from then on both use the SSD's 4 bytes/µs.
  CHECK(aside(r, 0).start_us == Approx(10));
  CHECK(aside(r, 0).end_us == Approx(60));
  CHECK(r.ops[3].ready_us == Approx(60));
}

TEST_CASE("Codecs' forms move between far tiers as they are") {
  Machine m = joined_tiers();
  m.codecs = {{"half", 10e6, 10e6, 0.5, false, 0}};
  const auto r = simulated(one_that_rests(), m, {{1, 0, Action::out, 1, 1}, {1, 0, Action::stage, 2, {}}});
  CHECK(aside(r, 0).stored_bytes == 50);
  CHECK(r.tier_peak_bytes[2] == 50);
}

TEST_CASE("A stage that no far route serves is refused; where the tier may be another one it does nothing") {
  Machine m = joined_tiers();
  m.tiers.push_back({"remote", unlimited_bytes});
  m.routes.push_back({3, {0}});
  const wire::Trace t = one_that_rests();
  const std::vector<wire::ScheduleEntry> from_remote = {{1, 0, Action::out, 3, {}},
                                                        {1, 0, Action::stage, 2, {}}};
  const auto error = [&](const Machine& machine, std::vector<wire::ScheduleEntry> entries) {
    return simulate(t, machine, {"step", "by hand", std::move(entries)}).error;
  };
  CHECK(error(m, from_remote) ==
        "entries[1]: tensor 0 lies in tier 3, from which no far route leads to tier 2");
  SimulationOptions on_demand;
  on_demand.victims = Victims::lru;
  CHECK(asides(simulated(t, m, from_remote, on_demand)) == 0);
  CHECK(error(m, {{1, 0, Action::out, 1, {}}, {1, 0, Action::stage, 3, {}}}) ==
        "entries[1]: there is no far route to tier 3");
  CHECK(error(m, {{0, 0, Action::stage, 2, {}}}) ==
        "entries[0]: tensor 0 has no content at position 0 that could be staged");
  m.far_routes = {{1, 1, {1}}};
  CHECK(error(m, {}) == "far_routes[0] leads from tier 1 to itself");
  m.far_routes = {{0, 1, {1}}};
  CHECK(error(m, {}) == "far_routes[0] ends in tier 0, which has no route to tier 0 or lies inside it");
  m.far_routes = {{1, 2, {1}}, {2, 1, {1}}};
  CHECK(error(m, {}) == "far_routes[1] is the second one between its tiers");
  m.far_routes = {{1, 2, {7}}};
  CHECK(error(m, {}) == "far_routes[0] leads over link 7, which does not exist");
}

TEST_CASE("The judge sees a transfer between far tiers that cannot have been") {
  const wire::Trace t = one_that_rests();
  const Machine m = joined_tiers();
  const SimulationReport sound = simulated(t, m, {{1, 0, Action::out, 1, {}}, {1, 0, Action::stage, 2, {}}});
  const auto judged = [&](auto damage) {
    SimulationReport r = sound;
    damage(r);
    return check_timeline(t, m, r);
  };
  const auto says = [](const char* what) { return Catch::Contains(what); };
  CHECK_THAT(judged([](auto& r) { r.transfers[1].end_us -= 5; }), says("is faster than its links"));
  CHECK_THAT(judged([](auto& r) { r.transfers[1].in = true; }), says("has no route"));
  CHECK_THAT(judged([](auto& r) { r.transfers[1].tier = 0; }), says("has no route"));
  CHECK_THAT(judged([](auto& r) { std::swap(r.transfers[1].from, r.transfers[1].tier); }),
             says("has no route"));
  CHECK_THAT(judged([](auto& r) { r.transfers[1].start_us -= 5; }),
             says("is not where its transfer between far tiers begins"));
  CHECK_THAT(judged([](auto& r) { r.transfers[1].stored_bytes = 90; }), !Catch::Equals(""));
  CHECK_THAT(judged([](auto& r) { r.transfers.erase(r.transfers.begin() + 1); }), !Catch::Equals(""));
}

TEST_CASE("Random plans with stages: the judge passes, and bounds hold") {
  std::size_t done = 0;
  std::size_t staged = 0;
  std::size_t aborted = 0;
  for (std::uint64_t seed = 0; seed < 12'000; ++seed) {
    Random random(seed);
    const wire::Trace trace = random_trace(random, 1 + below(random, 25), 1 + below(random, 25));
    Machine machine = random_machine(random, trace);
    if (machine.tiers.size() < 3) continue;
    machine.far_routes = {{1, 2, {1}}};
    const wire::Schedule schedule =
        with_stages(random, machine, random_schedule(random, trace, machine, below(random, 25)));
    SimulationOptions options;
    options.victims = static_cast<Victims>(below(random, 4));
    options.stall_rule = static_cast<StallRule>(below(random, 2));
    options.steps = 1 + below(random, 3);
    options.initial_tier = below(random, 3);
    options.record_timeline = true;
    const Result<SimulationReport> r = simulate(trace, machine, schedule, options);
    INFO("seed " << seed << " " << r.error);
    REQUIRE((r || !r.error.empty()));
    if (!r) continue;
    ++done;
    for (const Transfer& t : r->transfers) {
      staged += t.from != 0 ? 1 : 0;
      aborted += t.from != 0 && t.aborted ? 1 : 0;
    }
    const std::string wrong = check_timeline(trace, machine, *r);
    INFO(wrong);
    REQUIRE(wrong.empty());
    const bool recomputes =
        std::any_of(schedule.entries.begin(), schedule.entries.end(), [](const wire::ScheduleEntry& e) {
          return e.codec != 0 || e.action == Action::drop || e.action == Action::redo;
        });
    if (!recomputes) REQUIRE(r->bounds.step_us <= r->total_us * (1 + 1e-9));
  }
  CHECK(done > 1'000);
  CHECK(staged > 700);
  CHECK(aborted > 10);
}

// Host memory has room for one of the two that rest. The first one is needed last, and can be there only
// once the other has left.
TEST_CASE("The joint search stages what waits on the SSD back while other things fill the first tier") {
  wire::Trace t = step({tensor(100), tensor(100), tensor(200), tensor(200)},
                       {op(50, {}, {0}), op(50, {}, {1}), op(100, {}, {2}), op(50, {2}, {}), op(20, {1}, {}),
                        op(100, {}, {3}), op(50, {3}, {}), op(10, {0}, {})});
  t.tensors.push_back(tensor(0));  // updated by each operation, so that they have one order
  t.tensors.back().id = 4;
  for (wire::TraceOp& o : t.ops) {
    o.recomputable = false;
    if (&o != &t.ops.front()) o.inputs.push_back(4);
    o.outputs.push_back(4);
  }
  Machine m = joined_tiers(200);
  m.tiers[1].capacity_bytes = 100;
  const Result<SwapPlan> staged = joint::plan_jointly(t, m, {});
  REQUIRE(staged);
  CHECK(std::any_of(staged->entries.begin(), staged->entries.end(),
                    [](const wire::ScheduleEntry& e) { return e.action == Action::stage; }));
  CHECK(repeated_us(t, m, *staged) == Approx(460));
  SwapControl from = brief;
  from.from = &*staged;
  const Result<SwapPlan> again = joint::plan_jointly(t, m, from);
  REQUIRE(again);
  CHECK(repeated_us(t, m, *again) == Approx(460));
  m.far_routes.clear();
  const Result<SwapPlan> direct = joint::plan_jointly(t, m, {});
  REQUIRE(direct);
  CHECK(repeated_us(t, m, *direct) == Approx(475));
}

}  // namespace terrace::planner
