// The bound by a linear programme: values worked out by hand, and never above what any schedule reaches.
#include "daemon/planner/simulate/bound/step_bound.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "daemon/planner/order/scheduled.h"
#include "daemon/planner/simulate/bound/linear.h"
#include "tests/planner/simulate/random_plans.h"

namespace terrace::planner {
namespace {

using namespace test;
using wire::Action;

double bound_us(const wire::Trace& trace, const Machine& machine, const StepBoundOptions& options = {}) {
  const StepBound b = step_bound(trace, machine, options);
  CHECK(b.finished);
  return b.step_us;
}

bool recomputes(const wire::Schedule& schedule) {
  return std::any_of(schedule.entries.begin(), schedule.entries.end(),
                     [](const wire::ScheduleEntry& e) { return e.action == Action::redo; });
}

// Holds every policy, and what is moved on demand, to the bound. Answers how many ran.
std::uint32_t hold_policies(const wire::Trace& t, const Machine& m, double least_us) {
  std::uint32_t ran = 0;
  for (const SwapPolicy& p : swap_policies()) {
    const auto schedule = p.plan(t, m, {0, 0.1, {}});  // searches are kept short
    if (!schedule) continue;
    const bool as_recorded = schedule->operations.empty() && !recomputes(*schedule);
    const double bound =
        as_recorded ? least_us
                    : bound_us(in_order(t, schedule->operations), m, {.recomputes = recomputes(*schedule)});
    for (const StallRule rule : {StallRule::strict, StallRule::overlapped}) {
      for (std::uint32_t steps = 1; steps <= 3; ++steps) {
        const auto r =
            simulate(t, m, *schedule, {schedule->victims, rule, steps, false, steps == 3 ? 1U : 0U});
        if (!r) continue;
        ++ran;
        INFO(p.name << ", " << steps << " steps");
        REQUIRE(bound <= r->total_us * (1 + 1e-9));
      }
    }
  }
  return ran;
}

// Every way to say nothing, evict or prefetch before each operation but the first for each tensor; the best
// step.
double best_us(const wire::Trace& t, const Machine& m) {
  std::vector<wire::ScheduleEntry> all;
  for (std::uint32_t position = 1; position < t.ops.size(); ++position) {
    for (std::uint32_t tensor = 0; tensor < t.tensors.size(); ++tensor)
      all.push_back({position, tensor, Action::out, 1, {}});
  }
  double best = std::numeric_limits<double>::infinity();
  std::size_t cases = 1;
  for (std::size_t i = 0; i < all.size(); ++i) cases *= 3;
  for (std::size_t which = 0; which < cases; ++which) {
    wire::Schedule schedule;
    std::size_t rest = which;
    for (const wire::ScheduleEntry& e : all) {
      if (rest % 3 != 0) schedule.entries.push_back(e);
      if (rest % 3 == 2) schedule.entries.back().action = Action::in;
      rest /= 3;
    }
    for (const StallRule rule : {StallRule::strict, StallRule::overlapped}) {
      const auto r = simulate(t, m, schedule, {Victims::none, rule, 2, false, 0});
      if (r) best = std::min(best, r->total_us);
    }
  }
  return best;
}

}  // namespace

TEST_CASE("What rests leaves before, and returns after; it must be copied out only once") {
  // A (100) rests while B (100) fills memory of 150: 50 bytes leave and return.
  const wire::Trace t = step({tensor(100), tensor(100)}, {op(10, {}, {0}), op(20, {}, {1}), op(5, {0}, {})});
  CHECK(bound_us(t, two_tiers(150)) == Approx(10 + 50 + 50));
  CHECK(bound_us(t, two_tiers(200)) == Approx(35));
  CHECK(std::isinf(bound_us(t, two_tiers(99))));
  // Again B, and A again: the 50 bytes that left once return twice, from the copy.
  wire::Trace again = t;
  again.ops.push_back(op(20, {}, {1}));
  again.ops.push_back(op(5, {0}, {}));
  CHECK(bound_us(again, two_tiers(150)) == Approx(10 + 50 + 50 + 20 + 50));
  // Between them A is written: the copy is of old content.
  again.ops[2] = op(5, {0}, {0});
  CHECK(bound_us(again, two_tiers(150)) == Approx(10 + 50 + 50 + 50 + 50));
  // What will be written over need not exist.
  again.ops[2] = op(5, {}, {0});
  again.ops.erase(again.ops.begin() + 3, again.ops.end());
  CHECK(bound_us(again, two_tiers(150)) == Approx(35));
}

TEST_CASE("Persistent tensors rest, too: before their first operation, and after the last") {
  // W is read by operation 0 and 2, B needs all of the memory between.
  wire::Trace t = step({tensor(100, true), tensor(150)}, {op(10, {0}, {}), op(20, {}, {1}), op(5, {0}, {})});
  CHECK(bound_us(t, two_tiers(150)) == Approx(10 + 20 + 100));
  t.ops[0] = op(10, {0}, {0});  // written: no copy is older than the step
  CHECK(bound_us(t, two_tiers(150)) == Approx(10 + 100 + 100));
  // Nothing names W, but it has to be somewhere: it can stay outside.
  t.ops = {op(10, {}, {}), op(20, {}, {1}), op(5, {}, {})};
  CHECK(bound_us(t, two_tiers(150)) == Approx(35));
}

TEST_CASE("A step that repeats pays for what it leaves to the next one") {
  // W is written last and read first; B comes between, of all memory. One step may begin with W in tier 0.
  const wire::Trace t =
      step({tensor(100, true), tensor(150)}, {op(10, {0}, {}), op(20, {}, {1}), op(5, {0}, {0})});
  CHECK(bound_us(t, two_tiers(150)) == Approx(130));
  // V is written in the middle, W at the end; both are read first, and both never fit.
  const wire::Trace two = step({tensor(100, true), tensor(100, true)},
                               {op(10, {0}, {}), op(10, {1}, {1}), op(10, {0}, {0}), op(10, {1}, {})});
  StepBoundOptions repeats;
  repeats.repeats = true;
  CHECK(bound_us(two, two_tiers(100), repeats) > bound_us(two, two_tiers(100)) + 50);
}

TEST_CASE("Links that routes share, recomputations and codecs") {
  Machine m = two_tiers(150);
  m.links = {{"pcie", 10e6, 10e6, 0, 0}, {"ssd", 4e6, 4e6, 0, 0}};
  m.tiers.push_back({"ssd", unlimited_bytes});
  m.routes = {{1, {0}}, {2, {0, 1}}};
  wire::Trace t = step({tensor(100), tensor(100)}, {op(10, {}, {0}), op(0, {}, {1}), op(0, {0}, {})});
  CHECK(bound_us(t, m) ==
        Approx(10 + 10));  // 5 µs each way over the first link, whatever the second one does
  m.routes = {{2, {0, 1}}};
  CHECK(bound_us(t, m) == Approx(10 + 25));
  StepBoundOptions again;
  again.recomputes = true;
  // r bytes of A are made again in r / 10 µs, in which the other 50 - r leave and return: r = 41 2/3.
  CHECK(bound_us(t, m, again) == Approx(10 + 25 / 6.));
  t.ops[0].recomputable = false;
  CHECK(bound_us(t, m, again) == Approx(10 + 25));
  m.codecs = {{"half", 1e6, 1e6, 0.5, false, 0}};
  CHECK(bound_us(t, m) == Approx(10 + 12.5));
  m.codecs = {{"nothing", 1e6, 1e6, 0, false, 0}};
  CHECK(bound_us(t, m) == Approx(10));
}

TEST_CASE("No policy beats the bound on random steps") {
  std::uint32_t ran = 0;
  std::uint32_t above_older = 0;
  for (std::uint64_t seed = 0; seed < 250; ++seed) {
    Random random(seed);
    const wire::Trace t = random_step(random);
    Machine m = roomy_machine(random, t);
    if (seed % 4 != 0) m.codecs.clear();
    INFO("seed " << seed);
    const double least_us = bound_us(t, m);
    ran += hold_policies(t, m, least_us);
    above_older += least_us > lower_bounds(t, m).step_us * 1.01 ? 1 : 0;
  }
  CHECK(ran > 5000);
  CHECK(above_older > 20);  // it would hold trivially otherwise
}

TEST_CASE("No random schedule beats the bound, with drops, recomputations and codecs") {
  std::uint32_t ran = 0;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    Random random(seed);
    const wire::Trace t = random_trace(random, 1 + static_cast<std::uint32_t>(random() % 20),
                                       1 + static_cast<std::uint32_t>(random() % 20));
    const Machine m = random_machine(random, t);
    const wire::Schedule schedule = random_schedule(random, t, m, static_cast<std::uint32_t>(random() % 20));
    const SimulationOptions options{static_cast<Victims>(random() % 4), static_cast<StallRule>(random() % 2),
                                    1 + static_cast<std::uint32_t>(random() % 3), false,
                                    static_cast<std::uint32_t>(random() % 2)};
    const auto r = simulate(t, m, schedule, options);
    if (!r) continue;
    ++ran;
    StepBoundOptions bound;
    bound.recomputes = recomputes(schedule);
    INFO("seed " << seed);
    REQUIRE(bound_us(t, m, bound) <= r->total_us * (1 + 1e-9));
  }
  CHECK(ran > 700);
}

TEST_CASE("The best of all schedules of tiny steps is not below the bound, and often close to it") {
  std::uint32_t tight = 0;
  std::uint32_t found = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    wire::Trace t = random_trace(random, 4, 3);
    t.ops[0] = op(10, {}, {0, 1});
    t.ops[3].inputs = {0, 1};
    t.ops[1 + random() % 2].workspace_bytes = 1500;
    Machine m = two_tiers(0);
    m.tiers[0].capacity_bytes = lower_bounds(t, m).largest_op_bytes + random() % 200;
    m.links[0] = {"pcie", 20e6, 30e6, 0, 0};
    INFO("seed " << seed);
    const double least_us = bound_us(t, m);
    const double best = best_us(t, m);
    REQUIRE(least_us <= best * (1 + 1e-9));
    if (std::isinf(best) || least_us <= lower_bounds(t, m).compute_us * 1.001) continue;
    ++found;
    tight += best <= least_us * 1.25 ? 1 : 0;
  }
  CHECK(found >= 10);
  CHECK(2 * tight >= found);
}

TEST_CASE("Over a cycle of steps the mean obeys the bound of a step that repeats") {
  std::uint32_t cycles = 0;
  std::uint32_t stricter = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    Random random(seed);
    const wire::Trace t = random_trace(random, 3 + static_cast<std::uint32_t>(random() % 12),
                                       3 + static_cast<std::uint32_t>(random() % 12));
    Machine m = random_machine(random, t);
    m.tiers.back().capacity_bytes = unlimited_bytes;
    m.codecs.clear();
    StepBoundOptions repeats;
    repeats.repeats = true;
    const double least_us = bound_us(t, m, repeats);
    stricter += least_us > bound_us(t, m) * 1.001 ? 1 : 0;
    for (const Victims victims : {Victims::lru, Victims::fifo, Victims::belady}) {
      std::vector<SimulationReport> steps;
      for (std::uint32_t n = 1; n <= 9; ++n) {
        const auto r = simulate(t, m, {}, {victims, StallRule::strict, n, true, 0});
        REQUIRE(r);
        steps.push_back(*r);
      }
      const auto alike = [&](const SimulationReport& a, const SimulationReport& b) {
        const auto in_flight = [](const SimulationReport& r) {
          return !r.transfers.empty() && r.transfers.front().start_us < 0;
        };
        return !in_flight(a) && !in_flight(b) &&
               std::equal(a.start.begin(), a.start.end(), b.start.begin(), b.start.end(),
                          [](const Residence& x, const Residence& y) {
                            return x.tensor == y.tensor && x.tier == y.tier;
                          });
      };
      for (std::size_t i = 0; i < steps.size(); ++i) {
        double sum = 0;
        for (std::size_t j = i; j + 1 < steps.size(); ++j) {
          sum += steps[j].total_us;
          if (!alike(steps[i], steps[j + 1])) continue;
          ++cycles;
          INFO("seed " << seed << ", steps " << i << " to " << j);
          REQUIRE(least_us * static_cast<double>(j + 1 - i) <= sum * (1 + 1e-9));
        }
      }
    }
  }
  CHECK(cycles > 500);
  CHECK(stricter >= 3);
}

TEST_CASE("Fewer instants, fewer columns and a solver that is stopped give lower bounds, not wrong ones") {
  std::uint32_t stopped = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    const wire::Trace t = random_trace(random, 60, 40);
    Machine m = random_machine(random, t);
    m.codecs.clear();
    StepBoundOptions options;
    const double all_us = bound_us(t, m, options);
    const double compute_us = lower_bounds(t, m).compute_us;
    options.most_instants = 10;
    const double coarse_us = bound_us(t, m, options);
    options.most_columns = 100;
    const double small_us = bound_us(t, m, options);
    options = {};
    options.most_iterations = 5;
    const StepBound early = step_bound(t, m, options);
    stopped += early.finished ? 0 : 1;
    INFO("seed " << seed);
    for (const double less_us : {coarse_us, small_us, early.step_us}) {
      CHECK(less_us <= all_us * (1 + 1e-6));
      CHECK(less_us >= compute_us);
    }
  }
  CHECK(stopped > 20);
}

TEST_CASE("Multipliers make a bound whatever they are") {
  // Minimise x + 2y, x + y >= 3, x <= 2: 4 at (2, 1).
  LinearProgramme lp;
  const std::uint32_t row = lp.add_row(3, without_limit);
  const std::uint32_t x = lp.add_column(1, 0, 2), y = lp.add_column(2, 0, 10);
  lp.add(row, x, 1);
  lp.add(row, y, 0.5);
  lp.add(row, y, 0.5);
  std::vector<double> multipliers;
  CHECK(lp.solve(100, &multipliers));
  CHECK(lp.lagrangian(multipliers) == Approx(4));
  for (const double m : {-1.0, 0.0, 0.5, 1.0, 1.9, 3.0, 1e9, std::nan("")})
    CHECK(lp.lagrangian({m}) <= 4 + 1e-9);
}

}  // namespace terrace::planner
