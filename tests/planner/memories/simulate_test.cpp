// The simulator's rules, one by one, with figures that can be reckoned by hand.
#include <catch2/catch.hpp>

#include "tests/planner/memories/two_memories.h"

namespace terrace::planner::memories {
namespace {

using namespace test;

// Tensor 0 is made, rests through an operation of 100 µs that names nothing of it, and is read.
wire::Trace rests() {
  return test::step({tensor(10), tensor(1)}, {op(10, {}, {0}), op(100, {}, {1}), op(10, {0}, {})});
}

Report timed(const Step& step, const Plan& plan) {
  Report report = simulate(step, plan, {.steps = 1, .timeline = true});
  CHECK(check(step, report) == "");
  CHECK(report.fast_peak_bytes <= step.fast_bytes);
  return report;
}

Plan births(std::vector<bool> fast) { return {std::move(fast), {}}; }

}  // namespace

TEST_CASE("What lies in the slow memory is used there and costs its accesses") {
  const Step s = on_two(rests(), 11);
  CHECK(timed(s, births({true, true})).total_us == Approx(120));
  const Report slow = timed(s, births({false, true}));
  CHECK(slow.total_us == Approx(100 + 100 + 40));  // written in 100 µs, read in 40
  CHECK(slow.access_us == Approx(90 + 30));
  CHECK(slow.lost_us == std::vector<double>{90, 0, 30});
}

TEST_CASE("A birth without room in the fast memory is one in the slow memory") {
  const Report r = timed(on_two(rests(), 9), births({true, true}));
  CHECK(r.total_us == Approx(240));
  CHECK(r.fast_peak_bytes == 1);
}

TEST_CASE("A move runs beside operations and what it brought is fast") {
  Plan plan = births({false, true});
  plan.entries = {{1, 0, Move::in}};
  const Report r = timed(on_two(rests(), 11), plan);
  CHECK(r.total_us == Approx(100 + 100 + 10));
  CHECK(r.in_bytes == 10);
  REQUIRE(r.transfers.size() == 1);
  CHECK(r.transfers[0].end_us - r.transfers[0].start_us == Approx(40));
}

TEST_CASE("What is still on its way is used where it was unless the plan waits for it") {
  Plan plan = births({false, true});
  plan.entries = {{2, 0, Move::in}};
  const Step s = on_two(rests(), 11);
  CHECK(timed(s, plan).total_us == Approx(240));
  plan.entries.push_back({2, 0, Move::wait});
  const Report waits = timed(s, plan);
  CHECK(waits.wait_us == Approx(40));
  CHECK(waits.total_us == Approx(100 + 100 + 40 + 10));
}

TEST_CASE("A move has what operations leave of the slow memory's bandwidth") {
  // The second operation reads tensor 1 in the slow memory for 200 of its 400 µs.
  const Step s =
      on_two(test::step({tensor(25), tensor(50)}, {op(0, {}, {0, 1}), op(400, {1}, {}), op(0, {0}, {})}), 25);
  Plan plan = births({false, false});
  plan.entries = {{1, 0, Move::in}};
  const Report r = timed(s, plan);
  REQUIRE(r.transfers.size() == 1);
  CHECK(r.transfers[0].end_us - r.transfers[0].start_us == Approx(25 / 0.125));
}

TEST_CASE("A move out frees its room at its end and a move in waits for that") {
  const Step s = on_two(
      test::step({tensor(10), tensor(10)},
                 {op(10, {}, {0}), op(100, {}, {1}), op(200, {}, {}), op(10, {1}, {}), op(10, {0}, {})}),
      10);
  Plan plan = births({true, false});
  plan.entries = {{1, 0, Move::out}, {2, 1, Move::in}};
  const Report r = timed(s, plan);
  REQUIRE(r.transfers.size() == 2);
  // Tensor 1 is written in the slow memory for all of the second operation: the move out waits for that.
  CHECK(r.transfers[0].end_us == Approx(10 + 100 + 100));
  CHECK(r.transfers[1].start_us == Approx(210));
  CHECK(r.transfers[1].end_us == Approx(250));
  CHECK(r.total_us == Approx(10 + 100 + 200 + 10 + 40));
}

TEST_CASE("What was moved in and not written leaves at once and for nothing") {
  const Step s = on_two(rests(), 11);
  Plan plan = births({false, true});
  plan.entries = {{1, 0, Move::in}, {2, 0, Move::out}};
  const Report r = timed(s, plan);
  CHECK(r.out_bytes == 0);
  CHECK(r.total_us == Approx(240));
  // Written since: it is copied out.
  const Step written = on_two(
      test::step({tensor(10), tensor(1)},
                 {op(10, {}, {0}), op(100, {}, {1}), op(20, {0}, {0}), op(200, {}, {}), op(10, {0}, {})}),
      11);
  plan.entries = {{1, 0, Move::in}, {3, 0, Move::out}};
  CHECK(timed(written, plan).out_bytes == 10);
}

TEST_CASE("A write waits for the move of what it writes") {
  const Step s = on_two(test::step({tensor(10)}, {op(10, {}, {0}), op(20, {0}, {0}), op(10, {0}, {})}), 10);
  Plan plan = births({false});
  plan.entries = {{1, 0, Move::in}};
  const Report r = timed(s, plan);
  CHECK(r.wait_us == Approx(40));
  CHECK(r.total_us == Approx(100 + 40 + 20 + 10));
}

TEST_CASE("A move that has not begun is called off by the opposite one") {
  const Step s = on_two(
      test::step({tensor(10), tensor(10)}, {op(0, {}, {0, 1}), op(500, {}, {}), op(0, {0, 1}, {})}), 20);
  Plan plan = births({false, false});
  plan.entries = {{1, 0, Move::in}, {1, 1, Move::in}, {1, 1, Move::out}};
  CHECK(timed(s, plan).in_bytes == 10);
}

TEST_CASE("Weights begin the second step where the first one left them") {
  const Step s = on_two(test::step({tensor(10, true), tensor(1)}, {op(100, {}, {1}), op(10, {0}, {})}), 11);
  Plan plan = births({false, true});
  const Report slow = simulate(s, plan, {.timeline = true});
  CHECK(slow.total_us == Approx(140));
  plan.entries = {{0, 0, Move::in}};
  const Report moved = simulate(s, plan, {.timeline = true});
  CHECK(moved.total_us == Approx(110));
  CHECK(moved.in_bytes == 0);  // in the first step
  CHECK(check(s, moved).empty());
  CHECK(check(s, slow).empty());
}

TEST_CASE("Any plan of any step passes the judge") {
  Random random(17);
  for (int i = 0; i < 1500; ++i) {
    const wire::Trace trace = random_step(random);
    const Step s = on_two(trace, 1 + random() % (2 + 2 * on_two(trace, 1).peak_bytes()));
    const Plan plan = random_plan(random, s, static_cast<std::uint32_t>(random() % 80));
    const Report r = simulate(s, plan, {.steps = 3, .timeline = true});
    INFO("step " << i);
    REQUIRE(check(s, r) == "");
    REQUIRE(r.fast_peak_bytes <= s.fast_bytes);
    REQUIRE(r.total_us >= s.compute_us * (1 - 1e-9));
    REQUIRE(r.total_us == simulate(s, plan, {.steps = 3}).total_us);
  }
}

}  // namespace terrace::planner::memories
