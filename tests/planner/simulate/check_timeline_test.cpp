// The judge must see every kind of damage; each test plants one in a timeline that was right.
#include <catch2/catch.hpp>
#include <functional>

#include "tests/planner/simulate/random_plans.h"
#include "tests/planner/simulate/simulated.h"

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
  std::vector<wire::ScheduleEntry> entries = {{2, 0, Action::out, 1, {}},  {2, 1, Action::out, 1, {}},
                                              {3, 3, Action::out, 1, 1},   {5, 0, Action::in, 1, {}},
                                              {5, 1, Action::in, 1, {}},   {5, 3, Action::in, 1, {}},
                                              {6, 0, Action::drop, 0, {}}, {7, 0, Action::redo, 0, {}}};
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
  CHECK(says(s.damaged([](auto& r) { r.ops[5].start_us -= 1; }), "did not start as soon as"));
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

TEST_CASE("A wait holds the computation up until the transfer's end, and one that ends earlier is seen") {
  // Tensor 0 leaves from 10 to 110 while operation 1 runs; operation 2 would not need it.
  const wire::Trace t =
      step({tensor(100), tensor(10)}, {op(10, {}, {0}), op(10, {}, {1}), op(10, {1}, {}), op(10, {0}, {})});
  const Machine m = two_tiers(1000);
  SimulationReport r =
      simulated(t, m, {{1, 0, Action::out, 1, {}}, {1, 1, Action::wait, 0, {}}, {2, 0, Action::wait, 0, {}}});
  CHECK(r.ops[1].start_us == 10);  // nothing to wait for
  CHECK(r.ops[2].start_us == 110);
  CHECK(r.stalls.room_us == 90);
  CHECK(r.total_us == 110 + 10 + 100 + 10);
  // The same without having waited: everything behind comes 90 earlier, the way back included.
  for (OpTiming* late : {&r.ops[2], &r.ops[3]}) {
    for (double* us : {&late->ready_us, &late->present_us, &late->start_us, &late->end_us}) *us -= 90;
  }
  r.ops[3].present_us = r.ops[3].start_us = 220;
  r.ops[3].end_us = r.total_us = 230;
  r.ops[3].stalls.fetch_us = 190;
  r.stalls = {0, 190, 0};
  r.extra[1].timing = {20, 20, 20, 20, {}};
  CHECK(says(check_timeline(t, m, r), "was waited for and is still on its way"));
}

// op 0 makes A of X, op 1 changes X in place, op 2 reads A. A is dropped and made again where that is right,
// before op 1; the tests move it.
struct Again {
  wire::Trace trace = step({tensor(100, true), tensor(100), tensor(10), tensor(50, true)},
                           {op(10, {0}, {1}), op(10, {0}, {0}), op(10, {1}, {2})});
  Machine machine = two_tiers(1000);
  SimulationReport report;

  Again() {
    machine.codecs = {{"slow", 1, 1, 0.5, false, 0}};
    SimulationOptions options;
    options.record_timeline = true;
    const auto r = simulate(trace, machine,
                            {"", "", {{1, 1, Action::drop, 0, {}}, {1, 1, Action::redo, 0, {}}}}, options);
    INFO(r.error);
    REQUIRE(r);
    report = *r;
    REQUIRE_THAT(check_timeline(trace, machine, report), Catch::Equals(""));
    REQUIRE(report.extra.size() == 2);
  }
};

TEST_CASE("Recomputing what gives something else now is seen") {
  const Again s;
  wire::Trace random = s.trace;
  random.ops[0].recomputable = false;
  CHECK(says(check_timeline(random, s.machine, s.report), "not recomputable"));
  SimulationReport late = s.report;  // after op 1: times shift, X is another
  late.extra[0].position = late.extra[1].position = 2;
  late.ops[1] = late.extra[1].timing;
  late.extra[1].timing = s.report.ops[1];
  late.extra[0].timing = {20, 20, 20, 20, {}};
  CHECK(says(check_timeline(s.trace, s.machine, late), "tensor 0 was written after the operation read it"));
  SimulationReport early = s.report;
  early.extra[1].op = 2;
  CHECK(says(check_timeline(s.trace, s.machine, early), "has not run yet"));
  SimulationReport other = s.report;
  other.extra[1].tensors = {2};
  CHECK(says(check_timeline(s.trace, s.machine, other), "did not write what"));
  other.extra[1].tensors = {77};
  CHECK(says(check_timeline(s.trace, s.machine, other), "did not write what"));
  wire::Trace in_place = s.trace;
  in_place.ops[0].outputs.push_back(0);
  CHECK(says(check_timeline(in_place, s.machine, s.report), "updates tensor 0 in place"));
}

TEST_CASE("A recomputation that stops before the last update in place leaves an older version and is seen") {
  // A is made of X, updated twice, read; dropped between and made again by all three.
  const wire::Trace t =
      step({tensor(100, true), tensor(100), tensor(10)},
           {op(10, {0}, {1}), op(3, {1}, {1}), op(4, {1}, {1}), op(5, {}, {}), op(10, {1}, {2})});
  const Machine m = two_tiers(1000);
  SimulationOptions options;
  options.record_timeline = true;
  const auto r =
      simulate(t, m, {"", "", {{3, 1, Action::drop, 0, {}}, {4, 1, Action::redo, 0, {}}}}, options);
  INFO(r.error);
  REQUIRE(r);
  CHECK(r->recompute_us == 17);
  REQUIRE_THAT(check_timeline(t, m, *r), Catch::Equals(""));
  REQUIRE(r->extra.size() == 4);
  // Without the second update: everything after it 4 earlier, and operation 4 reads the first one's content.
  SimulationReport old = *r;
  old.extra.pop_back();
  for (double* us : {&old.ops[4].ready_us, &old.ops[4].present_us, &old.ops[4].start_us, &old.ops[4].end_us,
                     &old.total_us, &old.recompute_us})
    *us -= 4;
  CHECK(says(check_timeline(t, m, old), "operation 4 reads an older content of tensor 1 than is due"));
}

TEST_CASE("A persistent tensor that is lost to the next step is seen") {
  const Again s;
  SimulationReport lost = s.report;
  ExtraWork drop;
  drop.position = 3;
  drop.tensors = {3};
  const double end_us = lost.total_us;
  drop.timing = {end_us, end_us, end_us, end_us, {}};
  lost.extra.push_back(drop);
  lost.memory.back().tier_bytes[0] -= 50;
  CHECK(says(check_timeline(s.trace, s.machine, lost), "persistent tensor 3 is lost to the next step"));
  SimulationReport nowhere = s.report;
  std::erase_if(nowhere.start, [](const Residence& r) { return r.tensor == 3; });
  for (MemorySample& m : nowhere.memory) m.tier_bytes[0] -= 50;
  CHECK(says(check_timeline(s.trace, s.machine, nowhere), "persistent tensor 3 is lost to the next step"));
}

TEST_CASE("Coded forms that no codec makes are seen") {
  const Again s;
  // Tensor 3 is compressed in no time by a codec of one byte a second, and sent as nothing.
  SimulationReport r = s.report;
  ExtraWork work;
  work.kind = ExtraWork::Kind::compress;
  work.position = 1;
  work.tensors = {3};
  work.timing = {10, 10, 10, 10, {}};
  r.extra.insert(r.extra.begin(), work);
  CHECK(says(check_timeline(s.trace, s.machine, r), "compressed in a time that no codec takes"));
  const Sound sound;
  Machine smaller = sound.machine;
  smaller.codecs[0].stored_share = 0.25;
  CHECK(says(check_timeline(sound.trace, smaller, sound.report), "which its codec does not make of it"));
  Machine faster = sound.machine;
  faster.codecs[0].decompress_bytes_per_second *= 2;
  CHECK(says(check_timeline(sound.trace, faster, sound.report), "decompressed in a time"));
  faster = sound.machine;
  faster.codecs[0].compress_bytes_per_second *= 2;
  CHECK(says(check_timeline(sound.trace, faster, sound.report), "compressed in a time"));
  SimulationReport begins = s.report;
  begins.start.back().stored_bytes = 7;
  CHECK(says(check_timeline(s.trace, s.machine, begins), "begins in 7 bytes, which no codec makes"));
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
      t, m, {"", "", {{1, 0, Action::out, 1, {}}, {1, 1, Action::out, 2, {}}, {2, 0, Action::in, 1, {}}}},
      options);
  REQUIRE(r);
  REQUIRE_THAT(check_timeline(t, m, *r), Catch::Equals(""));
  r->transfers[0].end_us = r->transfers[1].end_us = 120;  // each alone could be that fast
  CHECK(says(check_timeline(t, m, *r), "exceed the bandwidth"));
}

// At 8e8 us a double's last bit is 1.2e-7 us, and all of these ends are rounded down by half of it.
TEST_CASE("Many small transfers late in a long step pass as a link rounds them") {
  Machine m = two_tiers(1 << 20);
  m.links[0].out_bytes_per_second = 3.2e9;
  constexpr std::uint32_t count = 40;
  std::vector<std::uint32_t> all;
  std::vector<wire::ScheduleEntry> entries;
  for (std::uint32_t n = 0; n < count; ++n) {
    all.push_back(n);
    entries.push_back({1, n, Action::out, 1, {}});
  }
  for (const std::uint32_t n : all) entries.push_back({2, n, Action::in, 1, {}});
  const wire::Trace t = step(std::vector<wire::TraceTensor>(count, tensor(8192)),
                             {op(8e8, {}, all), op(1000, {}, {}), op(1000, all, {})});
  SimulationOptions options;
  options.record_timeline = true;
  const auto r = simulate(t, m, {"", "", entries}, options);
  REQUIRE(r);
  REQUIRE(r->transfers.size() == 2 * count);
  CHECK_THAT(check_timeline(t, m, *r), Catch::Equals(""));
}

}  // namespace terrace::planner
