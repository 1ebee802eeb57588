// Clean copies: what came in and was not written since leaves again for nothing. The link carries 1 byte a
// microsecond.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>

#include "tests/planner/simulate/random_plans.h"
#include "tests/planner/simulate/simulated.h"

namespace terrace::planner {
namespace {

using namespace test;
using wire::Action;

constexpr auto left_to_it = CopyUse::Kind::left_to_it;
constexpr auto gave_way = CopyUse::Kind::gave_way;

// A (100) is made, read by operation 2 and by operation 4; 1 and 3 need 150 bytes of workspace.
wire::Trace read_twice() {
  return step({tensor(100)},
              {op(10, {}, {0}), op(20, {}, {}, 150), op(10, {0}, {}), op(30, {}, {}, 150), op(10, {0}, {})});
}

const std::vector<wire::ScheduleEntry> out_twice = {{1, 0, Action::out, 1, {}}, {3, 0, Action::out, 1, {}}};

std::size_t count(const SimulationReport& r, CopyUse::Kind kind) {
  return static_cast<std::size_t>(
      std::count_if(r.copies.begin(), r.copies.end(), [kind](const CopyUse& c) { return c.kind == kind; }));
}

}  // namespace

TEST_CASE("What was not written since it came leaves at once and moves nothing") {
  const auto r = simulated(read_twice(), two_tiers(200), out_twice);
  // Out 10 to 110, operation 1 until 130, in until 230, operation 2 until 240, at once operation 3 until 270.
  CHECK(r.ops[3].start_us == 240);
  CHECK(r.total_us == 270 + 100 + 10);
  CHECK(r.transfers.size() == 3);
  REQUIRE(r.copies.size() == 1);
  CHECK(r.copies[0].kind == left_to_it);
  CHECK(r.copies[0].time_us == 240);
  CHECK(r.copies[0].runs_ended == 3);
  CHECK(r.links[0].out_bytes == Approx(100));
  CHECK(r.tier_peak_bytes[1] == 100);
}

TEST_CASE("What was written has no copy: it leaves over the link") {
  wire::Trace t = read_twice();
  t.ops[2].outputs = {0};
  const auto r = simulated(t, two_tiers(200), out_twice);
  CHECK(r.copies.empty());
  CHECK(r.transfers.size() == 4);
  CHECK(r.total_us == 270 + 100 + 100 + 10);
}

TEST_CASE("Victims leave to their copies, too") {
  SimulationOptions lru;
  lru.victims = Victims::lru;
  CHECK(simulated(read_twice(), two_tiers(200), {}, lru).total_us == 380);
  wire::Trace t = read_twice();
  t.ops[2].outputs = {0};
  CHECK(simulated(t, two_tiers(200), {}, lru).total_us == 480);
}

TEST_CASE("What begins below has its copy there") {
  wire::Trace t = step({tensor(100, true)}, {op(10, {0}, {}), op(20, {}, {}, 150)});
  SimulationOptions below;
  below.initial_tier = 1;
  const auto r = simulated(t, two_tiers(200), {{1, 0, Action::out, 1, {}}}, below);
  CHECK(r.total_us == 130);
  CHECK(count(r, left_to_it) == 1);
  // Without an eviction the next step begins with tensor and copy.
  below.steps = 2;
  t.ops[1].workspace_bytes = 0;
  const auto second = simulated(t, two_tiers(200), {}, below);
  CHECK(second.total_us == 30);
  CHECK(second.start.at(0).tier == 0);
  CHECK(second.start.at(0).copy_tier == 1);
  CHECK(second.start.at(0).copy_bytes == 100);
}

TEST_CASE("What the next operation reads leaves when that has ended") {
  const wire::Trace t = step({tensor(100, true), tensor(10)},
                             {op(10, {0}, {}), op(20, {0}, {1}), op(0, {1}, {}), op(5, {}, {}, 150)});
  SimulationOptions below;
  below.initial_tier = 1;
  const auto r = simulated(t, two_tiers(200), {{1, 0, Action::out, 1, {}}}, below);
  CHECK(r.total_us == 135);
  REQUIRE(r.copies.size() == 1);
  CHECK(r.copies[0].time_us == 130);
  // The operation writes it: then it leaves over the link.
  wire::Trace writes = t;
  writes.ops[1].outputs.push_back(0);
  const auto s = simulated(writes, two_tiers(200), {{1, 0, Action::out, 1, {}}}, below);
  CHECK(s.copies.empty());
  CHECK(s.total_us == 130 + 100 + 5);
}

TEST_CASE("An eviction is called off by a prefetch, and decided on arrival") {
  const wire::Trace t = step({tensor(100, true)}, {op(10, {}, {}), op(200, {}, {}), op(5, {0}, {})});
  SimulationOptions below;
  below.initial_tier = 1;
  const std::vector<wire::ScheduleEntry> there_and_back = {{0, 0, Action::in, 1, {}},
                                                           {1, 0, Action::out, 1, {}}};
  const auto r = simulated(t, two_tiers(200), there_and_back, below);
  REQUIRE(r.copies.size() == 1);
  CHECK(r.copies[0].time_us == 100);
  CHECK(r.total_us == 215 + 100);
  std::vector<wire::ScheduleEntry> called_off = there_and_back;
  called_off.push_back({1, 0, Action::in, 1, {}});
  const auto s = simulated(t, two_tiers(200), called_off, below);
  CHECK(s.copies.empty());
  CHECK(s.total_us == 215);
}

TEST_CASE("Copies give way to evictions, oldest first, and another tier is another transfer") {
  // Host of 150 bytes with the copies of A (50, first) and B (60); C (80) needs 40 bytes more.
  Machine m = two_tiers(400);
  m.tiers[1].capacity_bytes = 150;
  const wire::Trace t = step({tensor(50, true), tensor(60, true), tensor(80)},
                             {op(10, {0, 1}, {2}), op(200, {0, 1}, {}), op(10, {2}, {})});
  SimulationOptions below;
  below.initial_tier = 1;
  const auto r = simulated(t, m, {{1, 2, Action::out, 1, {}}}, below);
  REQUIRE(r.copies.size() == 1);
  CHECK(r.copies[0].kind == gave_way);
  CHECK(r.copies[0].tensor == 0);
  CHECK(r.tier_peak_bytes[1] == 140);
  // A has none any more, B has: they leave after operation 1, over the link and at once.
  const auto s = simulated(
      t, m, {{1, 2, Action::out, 1, {}}, {2, 0, Action::out, 1, {}}, {2, 1, Action::out, 1, {}}}, below);
  CHECK(count(s, left_to_it) == 1);
  CHECK(std::any_of(s.copies.begin(), s.copies.end(),
                    [](const CopyUse& c) { return c.kind == left_to_it && c.tensor == 1; }));
  m.tiers.push_back({"ssd", unlimited_bytes});
  m.routes.push_back({2, {0}});
  const auto other = simulated(t, m, {{2, 1, Action::out, 2, {}}}, below);
  REQUIRE(other.copies.size() == 1);
  CHECK(other.copies[0].kind == CopyUse::Kind::gave_way);
  CHECK(other.transfers.back().tier == 2);
}

TEST_CASE("A coded copy is coded once") {
  Machine m = two_tiers(200);
  m.codecs = {{"half", 10e6, 20e6, 0.5, false, 0}};
  std::vector<wire::ScheduleEntry> entries = out_twice;
  entries[0].codec = entries[1].codec = 1;
  const auto r = simulated(read_twice(), m, entries);
  CHECK(r.codec_us == Approx(10 + 5 + 5));
  CHECK(count(r, left_to_it) == 1);
  CHECK(r.transfers.size() == 3);
}

TEST_CASE("Damage to copies is seen") {
  const wire::Trace t = read_twice();
  const auto sound = simulated(t, two_tiers(200), out_twice);
  const auto damaged = [&](const std::function<void(SimulationReport&)>& damage) {
    SimulationReport r = sound;
    damage(r);
    return check_timeline(t, two_tiers(200), r);
  };
  const auto says = [](const std::string& text, const char* part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  CHECK_FALSE(damaged([](auto& r) { r.copies.clear(); }).empty());
  says(damaged([](auto& r) { r.copies.push_back(r.copies[0]); }), "no valid copy");
  says(damaged([](auto& r) { r.copies[0].tensor = 9; }), "does not exist");
  says(damaged([](auto& r) { r.copies[0].runs_ended = 7; }), "more than it has");
  says(damaged([](auto& r) { r.copies[0].kind = gave_way; }), "more than it has");
  says(damaged([](auto& r) {
         r.copies[0].time_us = 235;
         r.copies[0].runs_ended = 2;
       }),
       "while an operation uses it");
  says(damaged([](auto& r) { r.copies[0] = {left_to_it, 0, 5, 0}; }), "no valid copy");
  // The same timeline where operation 2 writes: the copy is of old content, its room is free.
  wire::Trace writes = t;
  writes.ops[2].outputs = {0};
  says(check_timeline(writes, two_tiers(200), sound), "sampled memory");
  // A copy that a step begins with must be in another tier than the tensor, in bytes that it can have.
  const wire::Trace weight = step({tensor(100, true)}, {op(10, {0}, {})});
  SimulationOptions below{Victims::none, StallRule::strict, 2, true, 1};
  const auto begins = simulate(weight, two_tiers(200), {}, below);
  REQUIRE(begins);
  SimulationReport wrong = *begins;
  wrong.start[0].copy_bytes = 40;
  says(check_timeline(weight, two_tiers(200), wrong), "no codec makes of it");
  wrong.start[0].copy_tier = 5;
  says(check_timeline(weight, two_tiers(200), wrong), "where none can be");
}

}  // namespace terrace::planner
