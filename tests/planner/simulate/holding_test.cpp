// What is made again on the way to something stays where there is room, and is not made once more.
#include <algorithm>
#include <catch2/catch.hpp>

#include "daemon/planner/simulate/joint/drafts.h"
#include "tests/planner/simulate/random_plans.h"
#include "tests/planner/simulate/simulated.h"

namespace terrace::planner {
namespace {

using namespace test;
using joint::Choices;
using joint::Drafts;
using wire::Action;

std::size_t made_again(const wire::Schedule& schedule, std::uint32_t tensor) {
  return static_cast<std::size_t>(std::count_if(
      schedule.entries.begin(), schedule.entries.end(),
      [&](const wire::ScheduleEntry& e) { return e.action == Action::redo && e.object == tensor; }));
}

// All of these tensors are made again where their gaps end.
Choices all_again(const Drafts& drafts, const std::vector<std::uint32_t>& tensors) {
  Choices choices = drafts.all_stay();
  for (joint::Choice& c : choices)
    if (std::find(tensors.begin(), tensors.end(), c.gap.tensor) != tensors.end())
      drafts.make_again(&c, c.gap.to);
  return choices;
}

double recompute_us(const wire::Trace& trace, const Machine& machine, const wire::Schedule& schedule) {
  const auto r = simulate_repeated(trace, machine, schedule, Victims::none, true);
  INFO(r.error);
  REQUIRE(r);
  CHECK_THAT(check_timeline(trace, machine, *r), Catch::Equals(""));
  return r->recompute_us;
}

// 1 is made from 0 in 50 µs, and is dead once 2 and 3 are made from it; these two rest while 4 is there.
wire::Trace two_of_a_dead_one() {
  return step({tensor(10, true), tensor(100), tensor(100), tensor(100), tensor(200)},
              {op(50, {0}, {1}), op(10, {1}, {2}), op(10, {1}, {3}), op(10, {}, {4}), op(10, {4}, {}),
               op(10, {2}, {}), op(10, {}, {}), op(10, {3}, {})});
}

// 2 is made from 1, and 3 and 4 from 2; 3 is needed before 4, and 4 before 2.
wire::Trace two_of_one_that_rests() {
  return step({tensor(10, true), tensor(100), tensor(100), tensor(100), tensor(100), tensor(200)},
              {op(50, {0}, {1}), op(50, {1}, {2}), op(10, {2}, {3}), op(10, {2}, {4}), op(10, {}, {5}),
               op(10, {5}, {}), op(10, {3}, {}), op(10, {}, {}), op(10, {4}, {}), op(10, {}, {}),
               op(10, {1, 2}, {})});
}

}  // namespace

TEST_CASE("A dead tensor that was made again stays until it is read again") {
  const wire::Trace t = two_of_a_dead_one();
  const Machine m = two_tiers(1000);
  const Drafts drafts(t, m);
  const Choices choices = all_again(drafts, {2, 3});
  const wire::Schedule plain = drafts.schedule(choices, {});
  CHECK(made_again(plain, 1) == 2);
  CHECK(recompute_us(t, m, plain) == Approx(120));
  const wire::Schedule holds = drafts.schedule(choices, {.holds = true});
  CHECK(made_again(holds, 1) == 1);
  CHECK(recompute_us(t, m, holds) == Approx(70));
}

TEST_CASE("A tensor whose gap goes on stays until it is read again, and until its gap ends") {
  const wire::Trace t = two_of_one_that_rests();
  const Machine m = two_tiers(1000);
  const Drafts drafts(t, m);
  const Choices choices = all_again(drafts, {2, 3, 4});
  const wire::Schedule plain = drafts.schedule(choices, {});
  CHECK(made_again(plain, 2) == 3);
  CHECK(recompute_us(t, m, plain) == Approx(3 * 50 + 2 * 10));
  const wire::Schedule holds = drafts.schedule(choices, {.holds = true});
  CHECK(made_again(holds, 2) == 1);
  CHECK(recompute_us(t, m, holds) == Approx(50 + 2 * 10));
}

TEST_CASE("Nothing stays where there is no room for it") {
  wire::Trace t = two_of_a_dead_one();
  t.tensors.push_back(tensor(150));  // between the two
  t.tensors.back().id = 5;
  t.ops[6].outputs = {5};
  const Machine m = two_tiers(310);
  const Drafts drafts(t, m);
  const wire::Schedule holds = drafts.schedule(all_again(drafts, {2, 3}), {.holds = true});
  CHECK(made_again(holds, 1) == 1);
  const Machine less = two_tiers(259);
  const Drafts tight(t, less);
  CHECK(made_again(tight.schedule(all_again(tight, {2, 3}), {.holds = true}), 1) == 2);
}

TEST_CASE("A tensor stays beyond its last use for what is made again of it, as long as it is told to") {
  const wire::Trace t = two_of_a_dead_one();
  const Machine m = two_tiers(1000);
  const Drafts drafts(t, m);
  const Choices choices = all_again(drafts, {2, 3});
  const wire::Schedule to_the_last = drafts.schedule(choices, {.tails = {{1, 7}}});
  CHECK(made_again(to_the_last, 1) == 0);
  CHECK(recompute_us(t, m, to_the_last) == Approx(20));
  const wire::Schedule to_the_first = drafts.schedule(choices, {.tails = {{1, 5}}});
  CHECK(made_again(to_the_first, 1) == 1);
  CHECK(recompute_us(t, m, to_the_first) == Approx(70));
  const wire::Schedule from_there_on = drafts.schedule(choices, {.holds = true, .tails = {{1, 5}}});
  CHECK(made_again(from_there_on, 1) == 0);
  CHECK(recompute_us(t, m, from_there_on) == Approx(20));
}

TEST_CASE("What is held beyond its last use is gone between there and where it is made again") {
  wire::Trace t = two_of_a_dead_one();
  t.ops[6].workspace_bytes = 150;  // beside 0 and what is left, while neither 1 nor 3 is there
  const Machine m = two_tiers(310);
  const Drafts drafts(t, m);
  const wire::Schedule s = drafts.schedule(all_again(drafts, {2, 3}), {.tails = {{1, 5}}});
  const auto r = simulate_repeated(t, m, s, Victims::none, true);
  INFO(r.error);
  REQUIRE(r);
  CHECK(r->stalls.total_us() == 0);
  CHECK(r->tier_peak_bytes[0] == 310);  // 0, 1 and 4 beside each other
}

TEST_CASE("A tail takes room from what would stay on the way") {
  const wire::Trace t = two_of_one_that_rests();
  const Machine m = two_tiers(1000);
  const Drafts drafts(t, m);
  const Choices choices = all_again(drafts, {2, 3, 4});
  CHECK(made_again(drafts.schedule(choices, {.holds = true}), 2) == 1);
  const Machine less = two_tiers(500);
  const Drafts tight(t, less);
  const Choices same = all_again(tight, {2, 3, 4});
  CHECK(made_again(tight.schedule(same, {.holds = true}), 2) == 1);
  CHECK(made_again(tight.schedule(same, {.holds = true, .tails = {{5, 10}}}), 2) > 1);
}

TEST_CASE("Random choices: what stays passes the judge, and never makes more again") {
  std::size_t fewer = 0;
  std::size_t ran = 0;
  for (std::uint64_t seed = 0; seed < 3'000; ++seed) {
    Random random(seed);
    const wire::Trace t = random_step(random);
    const Machine m = roomy_machine(random, t);
    const Drafts drafts(t, m);
    Choices choices = drafts.all_stay();
    for (std::size_t g = 0; g < choices.size(); ++g)
      if (drafts.can_be_made_again(g) && random() % 3 != 0) drafts.make_again(&choices[g], choices[g].gap.to);
    const wire::Schedule plain = drafts.schedule(choices, {});
    const wire::Schedule holds = drafts.schedule(choices, {.holds = true});
    const auto a = simulate_repeated(t, m, plain, Victims::belady, true);
    const auto b = simulate_repeated(t, m, holds, Victims::belady, true);
    INFO("seed " << seed << " " << a.error << " " << b.error);
    if (!a || !b) continue;
    ++ran;
    REQUIRE_THAT(check_timeline(t, m, *b), Catch::Equals(""));
    CHECK(b->recompute_us <= a->recompute_us * (1 + 1e-9));
    fewer += b->recompute_us < a->recompute_us * (1 - 1e-9) ? 1 : 0;
  }
  CHECK(ran > 1'500);
  CHECK(fewer > 30);
}

}  // namespace terrace::planner
