// Timelines worked out by hand, to the microsecond. The link carries 1 byte a microsecond unless said
// otherwise.
#include <catch2/catch.hpp>

#include "tests/planner/simulate/random_plans.h"
#include "tests/planner/simulate/simulated.h"

namespace terrace::planner {
namespace {

using namespace test;
using wire::Action;

std::string refusal(const wire::Trace& trace, const Machine& machine,
                    std::vector<wire::ScheduleEntry> entries, SimulationOptions options = {}) {
  const auto r = simulate(trace, machine, {trace.name, "by hand", std::move(entries)}, options);
  CHECK_FALSE(r);
  return r.error;
}

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// A of 100 bytes is made, B of 100 is made and used, A is used: 100 bytes are free only with A away.
wire::Trace there_and_back() {
  return step({tensor(100), tensor(100), tensor(10)},
              {op(10, {}, {0}), op(200, {}, {1}), op(300, {1}, {2}), op(10, {0, 2}, {})});
}

}  // namespace

TEST_CASE("Without transfers a step takes the sum of its operations") {
  const auto r = simulated(there_and_back(), two_tiers(210), {});
  CHECK(r.total_us == 520);
  CHECK(r.compute_us == 520);
  CHECK(r.stalls.total_us() == 0);
  CHECK(r.tier_peak_bytes == std::vector<std::uint64_t>{210, 0});
  CHECK(r.transfers.empty());
  CHECK(r.ops[2].start_us == 210);
}

TEST_CASE("What does not fit is refused, and the message names the operation and the bytes") {
  const std::string why = refusal(there_and_back(), two_tiers(209), {});
  CHECK(contains(why, "operation 2 ('op')"));
  CHECK(contains(why, "209 bytes"));
  CHECK(contains(why, "10 more"));
}

TEST_CASE("An operation waits for room until an eviction has ended") {
  // A leaves from 10 to 110; B needs its room.
  const auto r =
      simulated(there_and_back(), two_tiers(110), {{1, 0, Action::out, 1, {}}, {3, 0, Action::in, 1, {}}});
  CHECK(r.ops[1].start_us == 110);
  CHECK(r.stalls.room_us == 100);
  CHECK(r.ops[2].start_us == 310);
  // Op 2 ends at 610, B dies, A comes until 710.
  CHECK(r.stalls.late_prefetch_us == 100);
  CHECK(r.total_us == 720);
  CHECK(r.links[0].out_bytes == Approx(100));
  CHECK(r.links[0].in_busy_us == Approx(100));
  CHECK(r.tier_peak_bytes == std::vector<std::uint64_t>{110, 100});
}

TEST_CASE("A prefetch in time costs nothing, a late one the rest of its way") {
  // 210 bytes: nothing waits for room. A leaves 10-110 and comes from the begin of the entry's operation.
  const auto in_time =
      simulated(there_and_back(), two_tiers(210), {{1, 0, Action::out, 1, {}}, {2, 0, Action::in, 1, {}}});
  CHECK(in_time.total_us == 520);
  CHECK(in_time.stalls.total_us() == 0);
  wire::Trace quick = there_and_back();
  quick.ops[2].time_us = 30;
  const auto late = simulated(quick, two_tiers(210), {{1, 0, Action::out, 1, {}}, {2, 0, Action::in, 1, {}}});
  CHECK(late.stalls.late_prefetch_us == 70);
  CHECK(late.total_us == 10 + 200 + 30 + 70 + 10);
  CHECK(late.ops[3].ready_us == 240);
  CHECK(late.ops[3].start_us == 310);
}

TEST_CASE("Under G10's rule an operation overlaps its own stall") {
  wire::Trace quick = there_and_back();
  quick.ops[2].time_us = 30;
  quick.ops[3].time_us = 50;
  const std::vector<wire::ScheduleEntry> entries = {{1, 0, Action::out, 1, {}}, {2, 0, Action::in, 1, {}}};
  SimulationOptions options;
  options.stall_rule = StallRule::overlapped;
  const auto r = simulated(quick, two_tiers(210), entries, options);
  CHECK(r.total_us == 310);  // the arrival; 240 + 50 would be before it
  CHECK(r.stalls.late_prefetch_us == 20);
  quick.ops[3].time_us = 100;
  CHECK(simulated(quick, two_tiers(210), entries, options).total_us == 340);
}

TEST_CASE("What nobody prefetched is fetched on demand") {
  const auto r = simulated(there_and_back(), two_tiers(210), {{1, 0, Action::out, 1, {}}});
  CHECK(r.stalls.fetch_us == 100);
  CHECK(r.total_us == 620);
  REQUIRE(r.transfers.size() == 2);
  CHECK_FALSE(r.transfers[0].on_demand);
  CHECK(r.transfers[1].on_demand);
}

TEST_CASE("An operation may read what is leaving; its memory stays until it ends") {
  // Op 1 reads A for 200 while A leaves (10-110); C of op 2 has room only after.
  const wire::Trace t =
      step({tensor(100), tensor(100)}, {op(10, {}, {0}), op(200, {0}, {}), op(5, {}, {1}), op(5, {0}, {})});
  const auto r = simulated(t, two_tiers(100), {{1, 0, Action::out, 1, {}}});
  CHECK(r.ops[1].start_us == 10);
  CHECK(r.ops[2].start_us == 210);
  CHECK(r.tier_peak_bytes[0] == 100);
  CHECK(r.total_us == 215 + 100 + 5);
}

TEST_CASE("An operation that writes in place waits until what is leaving is back") {
  // A leaves 10-110; op 1 updates it: fetched 110-210.
  const wire::Trace t =
      step({tensor(100), tensor(1)}, {op(10, {}, {0}), op(0, {}, {1}), op(20, {0}, {0}), op(5, {0, 1}, {})});
  const auto r = simulated(t, two_tiers(200), {{1, 0, Action::out, 1, {}}});
  CHECK(r.ops[2].start_us == 210);
  CHECK(r.total_us == 235);
  // If it has not begun to leave, it leaves after the update: behind 50 bytes of another.
  const wire::Trace two =
      step({tensor(100), tensor(50), tensor(1)},
           {op(10, {}, {0, 1}), op(20, {0}, {0}), op(500, {}, {2}), op(5, {0, 1, 2}, {})});
  const auto s = simulated(two, two_tiers(200), {{1, 1, Action::out, 1, {}}, {1, 0, Action::out, 1, {}}});
  CHECK(s.ops[1].start_us == 10);
  REQUIRE(s.transfers.size() == 4);
  CHECK(s.transfers[1].tensor == 0);
  CHECK(s.transfers[1].start_us == 60);
  CHECK(s.transfers[1].end_us == 160);
}

TEST_CASE("What is written whole need not be fetched") {
  const wire::Trace t =
      step({tensor(100), tensor(100)}, {op(10, {}, {0}), op(300, {}, {1}), op(10, {1}, {0}), op(5, {0}, {})});
  const auto r = simulated(t, two_tiers(200), {{1, 0, Action::out, 1, {}}});
  CHECK(r.total_us == 325);
  CHECK(r.transfers.size() == 1);
}

TEST_CASE("A prefetch calls off an eviction that has not begun, and the other way round") {
  const wire::Trace t =
      step({tensor(100), tensor(50), tensor(1)}, {op(10, {}, {0, 1}), op(20, {}, {2}), op(5, {0, 1, 2}, {})});
  const auto r = simulated(
      t, two_tiers(200), {{1, 1, Action::out, 1, {}}, {1, 0, Action::out, 1, {}}, {2, 0, Action::in, 1, {}}});
  CHECK(r.total_us == 35);
  REQUIRE(r.transfers.size() == 1);  // tensor 1 is read while it leaves, and dies with the step
  CHECK(r.transfers[0].tensor == 1);
  CHECK(r.transfers[0].aborted);
  CHECK(r.transfers[0].end_us == 35);
  const wire::Trace back =
      step({tensor(100), tensor(50), tensor(1)},
           {op(10, {}, {0, 1}), op(500, {}, {2}), op(10, {}, {2}), op(5, {2}, {}), op(0, {0, 1}, {})});
  const auto s = simulated(back, two_tiers(200),
                           {{1, 0, Action::out, 1, {}},
                            {1, 1, Action::out, 1, {}},
                            {2, 0, Action::in, 1, {}},
                            {2, 1, Action::in, 1, {}},
                            {3, 1, Action::out, 1, {}}});
  CHECK(s.transfers.size() == 4);  // tensor 1 waited for tensor 0, and comes on demand after all
  CHECK(s.transfers[3].on_demand);
  CHECK(s.total_us == 660);
}

TEST_CASE("A recomputation takes its operation's time and needs its inputs") {
  // X (10) -> A (100) is dropped, made again before the last operation.
  wire::Trace t = step({tensor(10), tensor(100), tensor(100)},
                       {op(1, {}, {0}), op(40, {0}, {1}), op(7, {1}, {2}), op(5, {2}, {}), op(9, {1}, {})});
  const auto r = simulated(t, two_tiers(210), {{3, 1, Action::drop, 0, {}}, {4, 1, Action::redo, 0, {}}});
  CHECK(r.total_us == 62 + 40);
  CHECK(r.recompute_us == 40);
  CHECK(r.compute_us == 62);
  CHECK(r.transfers.empty());
  // With its input away the recomputation waits for it: it left 48 to 58, operation 3 ends at 98.
  t.ops[3].time_us = 50;
  const auto fetched =
      simulated(t, two_tiers(210),
                {{3, 1, Action::drop, 0, {}}, {3, 0, Action::out, 1, {}}, {4, 1, Action::redo, 0, {}}});
  CHECK(fetched.total_us == 98 + 10 + 40 + 9);
  CHECK(fetched.stalls.fetch_us == 10);
}

TEST_CASE("One recomputation serves all outputs that are asked for together") {
  const wire::Trace t = step({tensor(10), tensor(20), tensor(30)},
                             {op(1, {}, {0}), op(40, {0}, {1, 2}), op(2, {}, {}), op(3, {1, 2}, {})});
  const std::vector<wire::ScheduleEntry> drops = {{2, 1, Action::drop, 0, {}}, {2, 2, Action::drop, 0, {}}};
  std::vector<wire::ScheduleEntry> both = drops;
  both.push_back({3, 1, Action::redo, 0, {}});
  both.push_back({3, 2, Action::redo, 0, {}});
  CHECK(simulated(t, two_tiers(60), both).recompute_us == 40);
  both.insert(both.end() - 1, {3, 0, Action::in, 1, {}});
  CHECK(simulated(t, two_tiers(110), both).recompute_us == 80);
}

TEST_CASE("What was updated in place is made again from what it was made of") {
  // A is made of X, read by an operation, then updated; Y is made of A as it was before that update.
  wire::Trace t = step({tensor(10), tensor(100), tensor(20), tensor(30)},
                       {op(1, {}, {0}), op(40, {0}, {1}), op(5, {1}, {2}), op(7, {1}, {1}), op(2, {}, {}),
                        op(3, {0, 1, 2}, {3})});
  const auto r = simulated(t, two_tiers(300), {{4, 1, Action::drop, 0, {}}, {5, 1, Action::redo, 0, {}}});
  CHECK(r.recompute_us == 40 + 7);
  CHECK(r.total_us == 58 + 47);
  // Y would be made of the newer A.
  CHECK(contains(refusal(t, two_tiers(300), {{4, 2, Action::drop, 0, {}}, {5, 2, Action::redo, 0, {}}}),
                 "reads tensor 1, which was changed since"));
  // The update reads what has changed since.
  t.ops[3].inputs.push_back(0);
  t.ops[4] = op(2, {}, {0});
  CHECK(contains(refusal(t, two_tiers(300), {{4, 1, Action::drop, 0, {}}, {5, 1, Action::redo, 0, {}}}),
                 "reads tensor 0, which was changed since"));
}

TEST_CASE("What would not be the same is not recomputed") {
  wire::Trace t = step({tensor(10), tensor(20), tensor(5, true)},
                       {op(1, {}, {0}), op(40, {0, 2}, {1}), op(2, {2}, {2}), op(3, {0, 1}, {})});
  const std::vector<wire::ScheduleEntry> plan = {{3, 1, Action::drop, 0, {}}, {3, 1, Action::redo, 0, {}}};
  CHECK(contains(refusal(t, two_tiers(100), plan), "which was changed since"));
  t.ops[2] = op(2, {2}, {});
  CHECK(simulated(t, two_tiers(100), plan).recompute_us == 40);
  t.ops[1].recomputable = false;
  CHECK(contains(refusal(t, two_tiers(100), plan), "not recomputable"));
  t.ops[1] = op(40, {0, 1}, {1});  // of what nobody made
  CHECK(contains(refusal(t, two_tiers(100), plan), "whose content no operation before it made"));
  t.ops[1] = op(40, {0, 2}, {1, 2});  // 2 would be updated twice
  CHECK(contains(refusal(t, two_tiers(100), plan), "updates tensor 2 in place"));
  CHECK(contains(refusal(t, two_tiers(100), {{0, 1, Action::redo, 0, {}}}), "nothing before it"));
  CHECK(contains(refusal(t, two_tiers(100), {{3, 0, Action::redo, 0, {}}}), "drop it first"));
  CHECK(contains(refusal(t, two_tiers(100), {{3, 1, Action::drop, 0, {}}}), "was dropped"));
}

TEST_CASE("A codec takes compute time and less of the link") {
  Machine m = two_tiers(210);
  m.codecs = {{"half", 10e6, 20e6, 0.5, false, 0}};
  // Compress A: 10 to 20; leaves 20 to 70; comes 220 to 270 while op 2 runs until 520; decompress 5 before
  // op 3.
  const auto r = simulated(there_and_back(), m, {{1, 0, Action::out, 1, 1}, {2, 0, Action::in, 1, {}}});
  CHECK(r.codec_us == Approx(15));
  CHECK(r.total_us == Approx(535));
  REQUIRE(r.transfers.size() == 2);
  CHECK(r.transfers[0].stored_bytes == 50);
  CHECK(r.transfers[0].start_us == 20);
  CHECK(r.transfers[0].end_us == 70);
  CHECK(r.transfers[1].start_us == 220);
  CHECK(r.tier_peak_bytes[1] == 50);
  CHECK(r.ops[3].present_us == 520);
  CHECK(r.ops[3].start_us == 525);
}

TEST_CASE("A codec that drops zeros stores the rest and the masks") {
  wire::Trace t = there_and_back();
  t.tensors[0].sparsity = 0.75;
  Machine m = two_tiers(210);
  m.codecs = {{"zeros", 10e6, 20e6, 1, true, 0.25}};
  const auto r = simulated(t, m, {{1, 0, Action::out, 1, 1}});
  CHECK(r.transfers.at(0).stored_bytes == 50);
}

TEST_CASE("A later step begins where the one before ended") {
  // The weight leaves at the end of the step and comes back in the next one.
  const wire::Trace t =
      step({tensor(100, true), tensor(50)}, {op(10, {0}, {}), op(200, {}, {1}), op(10, {1}, {})});
  const std::vector<wire::ScheduleEntry> plan = {{1, 0, Action::out, 1, {}}};
  CHECK(simulated(t, two_tiers(200), plan).total_us == 220);
  SimulationOptions two;
  two.steps = 2;
  const auto r = simulated(t, two_tiers(200), plan, two);
  CHECK(r.total_us == 320);
  CHECK(r.stalls.fetch_us == 100);
  CHECK(r.start.at(0).tier == 1);
  std::vector<wire::ScheduleEntry> ahead = plan;
  ahead.push_back({2, 0, Action::in, 1, {}});
  const auto s = simulated(t, two_tiers(200), ahead, two);  // comes 210-310, the step ends at 220
  CHECK(s.total_us == 310);
  CHECK(s.transfers.at(0).start_us == -10);
}

TEST_CASE("Persistent tensors begin where they are told, or where there is room") {
  const wire::Trace t = step({tensor(100, true), tensor(100, true)}, {op(10, {0}, {}), op(10, {1}, {})});
  SimulationOptions options;
  options.initial_tier = 1;
  CHECK(simulated(t, two_tiers(200), {}, options).stalls.fetch_us == 200);
  options.initial_tier = 0;
  options.victims = Victims::lru;
  const auto r = simulated(t, two_tiers(150), {}, options);  // the second one did not fit
  CHECK(r.start.at(1).tier == 1);
  CHECK(r.stalls.room_us == 100);
  CHECK(r.stalls.fetch_us == 100);
}

TEST_CASE("Schedules that make no sense are refused by entry") {
  const wire::Trace t = there_and_back();
  const Machine m = two_tiers(210);
  CHECK(contains(refusal(t, m, {{9, 0, Action::out, 1, {}}}), "entries[0]"));
  CHECK(contains(refusal(t, m, {{1, 9, Action::out, 1, {}}}), "there is no tensor 9"));
  CHECK(contains(refusal(t, m, {{1, 0, Action::out, 0, {}}}), "no route to tier 0"));
  CHECK(contains(refusal(t, m, {{1, 0, Action::out, 1, 1}}), "no codec number 0"));
  CHECK(contains(refusal(t, m, {{1, 0, Action::out, 1, 0, 0}}), "deadline is before"));
  CHECK(contains(refusal(t, m, {{1, 0, Action::out, 1, 0, 2, 0, 50}}), "a part of tensor 0"));
  CHECK(contains(refusal(t, m, {{1, 0, Action::count, 0, 0}}), "the action is unknown"));
  wire::Schedule longer{"", "", {}};
  longer.period = 9;
  CHECK(contains(simulate(t, m, longer).error, "period has 9 ordinals"));
  CHECK(contains(refusal(t, m, {{2, 0, Action::out, 1, {}}, {1, 0, Action::out, 1, {}}}), "entries[1]"));
  CHECK(contains(refusal(t, m, {{0, 0, Action::out, 1, {}}}), "has no content"));
  CHECK(contains(refusal(t, m, {{4, 0, Action::drop, 0, {}}}), "has no content"));
  SimulationOptions none;
  none.steps = 0;
  CHECK(contains(refusal(t, m, {}, none), "at least one"));
}

}  // namespace terrace::planner
