// The judge must see every kind of damage; each test plants one in a timeline that was right.
#include <catch2/catch.hpp>
#include <functional>

#include "tests/planner/simulate/random_plans.h"

namespace terrace::planner {
namespace {

using namespace test;
using wire::Action;

// A and B leave one after the other and come back; C fills the room; A is recomputed at the end; D is stored
// compressed.
struct Sound {
  wire::Trace trace = step({tensor(100), tensor(100), tensor(100), tensor(40), tensor(10, true)},
                           {op(10, {4}, {0}), op(10, {0}, {1}), op(10, {}, {3}), op(300, {}, {2}),
                            op(50, {2}, {}), op(10, {0, 1}, {}), op(10, {1, 3}, {}), op(10, {0}, {4})});
  Machine machine = two_tiers(260);
  std::vector<wire::ScheduleEntry> entries = {
      {2, 0, Action::evict, 1, {}},    {2, 1, Action::evict, 1, {}},    {3, 3, Action::evict, 1, "half"},
      {5, 0, Action::prefetch, 1, {}}, {5, 1, Action::prefetch, 1, {}}, {5, 3, Action::prefetch, 1, {}},
      {6, 0, Action::drop, 0, {}},     {7, 0, Action::recompute, 0, {}}};
  SimulationReport report;

  Sound() {
    machine.codecs = {{"half", 10e6, 10e6, 0.5, false, 0}};
    SimulationOptions options;
    options.record_timeline = true;
    const auto r = simulate(trace, machine, {trace.name, "by hand", entries}, options);
    INFO(r.error);
    REQUIRE(r);
    report = *r;
    REQUIRE_THAT(check_timeline(trace, machine, report), Catch::Equals(""));
    REQUIRE(report.transfers.size() == 6);
    REQUIRE(report.extra.size() == 4);  // compress, drop, decompress, recompute
  }

  std::string damaged(const std::function<void(SimulationReport&)>& damage) const {
    SimulationReport r = report;
    damage(r);
    return check_timeline(trace, machine, r);
  }
};

bool says(const std::string& text, const char* part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
  return !text.empty();
}

}  // namespace

TEST_CASE("Damage to operations is seen") {
  const Sound s;
  CHECK(says(s.damaged([](auto& r) { r.ops.pop_back(); }), "tells of 7 operations"));
  CHECK(says(s.damaged([](auto& r) { r.ops[4].end_us -= 5; }), "did not take its time"));
  CHECK(says(s.damaged([](auto& r) { r.ops[5].start_us -= 1; }), "did not start when"));
  CHECK(says(s.damaged([](auto& r) { r.ops[4].ready_us -= 1; }), "was not ready when"));
  CHECK(says(s.damaged([](auto& r) { r.ops[3].stalls.room_us += 1; }), "waited longer or shorter"));
  CHECK(says(s.damaged([](auto& r) { r.ops[1].present_us = r.ops[1].end_us + 1; }), "in this order"));
}

TEST_CASE("Damage to totals is seen") {
  const Sound s;
  CHECK(says(s.damaged([](auto& r) { r.total_us -= 1; }), "total time"));
  CHECK(says(s.damaged([](auto& r) { r.compute_us -= 1; }), "compute_us"));
  CHECK(says(s.damaged([](auto& r) { r.recompute_us = 0; }), "recompute_us"));
  CHECK(says(s.damaged([](auto& r) { r.codec_us = 0; }), "codec_us"));
  CHECK(says(s.damaged([](auto& r) { r.stalls.late_prefetch_us += 1; }), "the stalls"));
  CHECK(says(s.damaged([](auto& r) { r.links[0].in_bytes -= 10; }), "the use of link"));
  CHECK(says(s.damaged([](auto& r) { r.links.clear(); }), "another machine"));
  CHECK(says(s.damaged([](auto& r) { r.tier_peak_bytes[0] -= 50; }), "the peak of tier"));
  CHECK(says(s.damaged([](auto& r) { r.tier_peak_bytes[0] += 500; }), "the peak of tier"));
}

TEST_CASE("Damage to transfers is seen") {
  const Sound s;
  CHECK(says(s.damaged([](auto& r) { r.transfers[0].end_us -= 1; }), "faster than its links"));
  CHECK(says(s.damaged([](auto& r) { r.transfers[1].start_us -= 10; }), "begins before the one ahead"));
  CHECK(says(s.damaged([](auto& r) { r.transfers[0].queued_us += 1000; }), "in this order"));
  CHECK(says(s.damaged([](auto& r) { r.transfers[0].tier = 7; }), "no route"));
  CHECK(says(s.damaged([](auto& r) { r.transfers[0].tensor = 70; }), "names tensor 70"));
  CHECK(says(s.damaged([](auto& r) { std::swap(r.transfers[0], r.transfers[4]); }), "not in order"));
  CHECK(!s.damaged([](auto& r) { r.transfers.erase(r.transfers.begin() + 3); }).empty());
  CHECK(!s.damaged([](auto& r) { r.transfers.erase(r.transfers.begin()); }).empty());
  CHECK(!s.damaged([](auto& r) { r.transfers[3].tensor = 1; }).empty());
}

TEST_CASE("Damage to memory and content is seen") {
  const Sound s;
  CHECK(says(s.damaged([](auto& r) { r.memory[2].tier_bytes[0] += 1; }), "sampled memory"));
  CHECK(says(s.damaged([](auto& r) { r.memory.clear(); }), "no sample"));
  CHECK(!s.damaged([](auto& r) { r.memory.erase(r.memory.begin() + 3); }).empty());
  CHECK(!s.damaged([](auto& r) { r.start.clear(); }).empty());
  Machine small = s.machine;
  small.tiers[0].capacity_bytes = 200;
  CHECK(says(check_timeline(s.trace, small, s.report), "more than it has"));
}

TEST_CASE("Damage to recomputation, drops and codecs is seen") {
  const Sound s;
  const auto without = [&](ExtraWork::Kind kind) {
    return s.damaged(
        [kind](auto& r) { std::erase_if(r.extra, [kind](const ExtraWork& w) { return w.kind == kind; }); });
  };
  CHECK(!without(ExtraWork::Kind::recompute).empty());
  CHECK(!without(ExtraWork::Kind::drop).empty());
  CHECK(!without(ExtraWork::Kind::compress).empty());
  CHECK(!without(ExtraWork::Kind::decompress).empty());
  CHECK(!s.damaged([](auto& r) { std::swap(r.extra[0], r.extra[3]); }).empty());
}

TEST_CASE("Sharing a link is checked over several transfers at once") {
  Machine m = two_tiers(1000);
  m.tiers.push_back({"ssd", unlimited_bytes});
  m.links.push_back({"ssd", 1e6, 1e6, 0, 0});
  m.routes.push_back({2, {0, 1}});
  const wire::Trace t =
      step({tensor(100), tensor(100), tensor(1)}, {op(0, {}, {0, 1}), op(1000, {}, {2}), op(0, {0, 1}, {})});
  SimulationOptions options;
  options.record_timeline = true;
  auto r = simulate(
      t, m,
      {"", "", {{1, 0, Action::evict, 1, {}}, {1, 1, Action::evict, 2, {}}, {2, 0, Action::prefetch, 1, {}}}},
      options);
  REQUIRE(r);
  REQUIRE_THAT(check_timeline(t, m, *r), Catch::Equals(""));
  r->transfers[0].end_us = r->transfers[1].end_us = 120;  // each alone could be that fast
  CHECK(says(check_timeline(t, m, *r), "exceed the bandwidth"));
}

}  // namespace terrace::planner
