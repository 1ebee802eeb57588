// Whatever is thrown at it: what the simulator says passes the judge, bounds hold, and the same gives the
// same.
#include <algorithm>
#include <catch2/catch.hpp>

#include "daemon/planner/schedule_period.h"
#include "tests/planner/simulate/random_plans.h"

namespace terrace::planner {
namespace {

using namespace test;

struct Case {
  wire::Trace trace;
  Machine machine;
  wire::Schedule schedule;
  SimulationOptions options;
};

Case make_case(std::uint64_t seed) {
  Random random(seed);
  const auto below = [&](std::uint64_t limit) { return static_cast<std::uint32_t>(random() % limit); };
  Case c;
  c.trace = random_trace(random, 1 + below(25), 1 + below(25));
  c.machine = random_machine(random, c.trace);
  c.schedule = random_schedule(random, c.trace, c.machine, below(3) == 0 ? 0 : below(25));
  c.options.victims = static_cast<Victims>(below(4));
  c.options.stall_rule = static_cast<StallRule>(below(2));
  c.options.steps = 1 + below(3);
  c.options.initial_tier = below(2);
  c.options.record_timeline = true;
  if (seed % 2 == 0) return c;
  give_deadlines(c.trace, &c.schedule);
  c.schedule.in_order = wire::Order::deadline;
  c.schedule.out_order = seed % 4 == 1 ? wire::Order::asked : wire::Order::deadline;
  return c;
}

bool moves_only(const wire::Schedule& schedule) {
  return std::all_of(schedule.entries.begin(), schedule.entries.end(), [](const wire::ScheduleEntry& e) {
    return e.codec == 0 && e.action != wire::Action::drop && e.action != wire::Action::redo;
  });
}

void check_bounds(const Case& c, const SimulationReport& r) {
  const double slack = 1 + 1e-9;
  CHECK(r.compute_us <= r.total_us * slack);
  CHECK(r.bounds.compute_us <= r.total_us * slack);
  CHECK(r.bounds.critical_path_us <= r.bounds.compute_us * slack);
  CHECK(r.bounds.largest_op_bytes <= r.bounds.max_live_bytes);
  CHECK(r.bounds.largest_op_bytes <= r.tier_peak_bytes[0]);
  if (!moves_only(c.schedule)) return;
  CHECK(r.bounds.step_us <= r.total_us * slack);
  CHECK(r.bounds.transfer_us <= r.total_us * slack);
}

}  // namespace

TEST_CASE("Ten thousand random plans: the judge passes, bounds hold, no byte comes from nowhere") {
  std::uint32_t done = 0;
  std::uint32_t moved = 0;
  std::uint32_t left_to_copies = 0;
  std::uint32_t given_up = 0;
  for (std::uint64_t seed = 0; seed < 10'000; ++seed) {
    const Case c = make_case(seed);
    const Result<SimulationReport> r = simulate(c.trace, c.machine, c.schedule, c.options);
    INFO("seed " << seed << " " << r.error);
    REQUIRE((r || !r.error.empty()));
    if (!r) continue;
    ++done;
    moved += r->transfers.empty() ? 0 : 1;
    for (const CopyUse& use : r->copies)
      ++(use.kind == CopyUse::Kind::left_to_it ? left_to_copies : given_up);
    const std::string wrong = check_timeline(c.trace, c.machine, *r);
    INFO(wrong);
    REQUIRE(wrong.empty());
    check_bounds(c, *r);
  }
  CHECK(done > 4'000);
  CHECK(moved > 2'000);
  CHECK(left_to_copies > 1'000);
  CHECK(given_up > 100);
}

TEST_CASE("On demand, everything that fits runs") {
  for (std::uint64_t seed = 0; seed < 3'000; ++seed) {
    Case c = make_case(seed);
    c.schedule.entries.clear();
    c.machine.tiers[1].capacity_bytes = unlimited_bytes;
    for (const Victims rule : {Victims::lru, Victims::fifo, Victims::belady}) {
      c.options.victims = rule;
      const Result<SimulationReport> r = simulate(c.trace, c.machine, c.schedule, c.options);
      INFO("seed " << seed << " " << r.error);
      REQUIRE(r);
      REQUIRE_THAT(check_timeline(c.trace, c.machine, *r), Catch::Equals(""));
    }
  }
}

TEST_CASE("The same plan gives the same report") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Case c = make_case(seed);
    const auto a = simulate(c.trace, c.machine, c.schedule, c.options);
    const auto b = simulate(c.trace, c.machine, c.schedule, c.options);
    REQUIRE(a.error == b.error);
    if (!a) continue;
    CHECK(a->total_us == b->total_us);
    CHECK(a->stalls.total_us() == b->stalls.total_us());
    REQUIRE(a->transfers.size() == b->transfers.size());
    for (std::size_t i = 0; i < a->transfers.size(); ++i) {
      CHECK(a->transfers[i].end_us == b->transfers[i].end_us);
      CHECK(a->transfers[i].tensor == b->transfers[i].tensor);
    }
  }
}

}  // namespace terrace::planner
