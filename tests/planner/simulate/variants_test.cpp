// Variants of operations: what a schedule that names them costs, who refuses which, and what bounds then
// hold.
#include "daemon/planner/variants.h"

#include <catch2/catch.hpp>

#include "daemon/planner/simulate/bound/step_bound.h"
#include "liballoc/wire/schedule/image.h"
#include "tests/planner/simulate/random_plans.h"

namespace terrace::planner {
namespace {

using namespace test;

// Operation 0 makes 0; operation 1 reads it, 20 us with 100 bytes of workspace, or 50 us with 10, or 15 us
// with 300.
wire::Trace two_ways() {
  wire::Trace t = step({tensor(100)}, {op(10, {}, {0}), op(20, {0}, {}, 100)});
  t.ops[1].variants = {{"small", 50, 10}, {"fast", 15, 300}};
  return t;
}

wire::Schedule with_choice(std::uint32_t variant) {
  wire::Schedule s{"two ways", "by hand", {}};
  s.variants = {{1, variant}};
  return s;
}

SimulationReport timed_run(const wire::Trace& t, const Machine& m, const wire::Schedule& s) {
  const auto r = simulate(t, m, s, {Victims::none, StallRule::strict, 1, true, 0});
  INFO(r.error);
  REQUIRE(r);
  CHECK_THAT(check_timeline(t, m, *r), Catch::Equals(""));
  return *r;
}

TEST_CASE("An operation takes the time and the workspace of the variant that the schedule names") {
  const wire::Trace t = two_ways();
  const SimulationReport own = timed_run(t, two_tiers(200), {});
  CHECK((own.total_us == 30 && own.tier_peak_bytes[0] == 200));
  CHECK_FALSE(simulate(t, two_tiers(199), {}));
  const SimulationReport small = timed_run(t, two_tiers(110), with_choice(1));
  CHECK((small.total_us == 60 && small.tier_peak_bytes[0] == 110));
  const SimulationReport fast = timed_run(t, two_tiers(400), with_choice(2));
  CHECK((fast.total_us == 25 && fast.tier_peak_bytes[0] == 400));
  CHECK_FALSE(simulate(t, two_tiers(399), with_choice(2)));
}

TEST_CASE("What is made again costs what its variant costs") {
  wire::Trace t = step({tensor(10, true), tensor(100), tensor(10)},
                       {op(10, {0}, {1}, 50), op(10, {1}, {2}), op(10, {}, {}), op(10, {1, 2}, {})});
  t.ops[0].variants = {{"other", 25, 5}};
  wire::Schedule s{"again", "by hand", {{2, 1, wire::Action::drop, 0, 0}, {3, 1, wire::Action::redo, 0, 0}}};
  s.variants = {{0, 1}};
  const SimulationReport r = timed_run(t, two_tiers(1000), s);
  CHECK(r.recompute_us == 25);
  CHECK(r.total_us == 25 + 30 + 25);
}

TEST_CASE("Choices of what there is not are refused by their place") {
  const wire::Trace t = two_ways();
  const auto refused_as = [&](std::vector<wire::VariantChoice> choices) {
    wire::Schedule s{"two ways", "by hand", {}};
    s.variants = std::move(choices);
    return simulate(t, two_tiers(1000), s).error;
  };
  CHECK(refused_as({{2, 1}}) == "variants[0]: there is no operation 2");
  CHECK(refused_as({{1, 0}}) == "variants[0]: operation 1 has 2 variants, not one of number 0");
  CHECK(refused_as({{1, 3}}) == "variants[0]: operation 1 has 2 variants, not one of number 3");
  CHECK(refused_as({{0, 1}}) == "variants[0]: operation 0 has 0 variants, not one of number 1");
  CHECK(refused_as({{1, 1}, {1, 2}}) == "variants[1]: operation 1 does not stand after the one before it");
  wire::Trace negative = t;
  negative.ops[1].variants[0].time_us = -1;
  CHECK_THAT(simulate(negative, two_tiers(1000), {}).error, Catch::Contains("ops[1] takes a time"));
}

TEST_CASE("The judge counts by the variants that the report tells of") {
  const wire::Trace t = two_ways();
  const Machine m = two_tiers(1000);
  const SimulationReport right = timed_run(t, m, with_choice(1));
  const auto verdict = [&](std::vector<wire::VariantChoice> told) {
    SimulationReport damaged = right;
    damaged.variants = std::move(told);
    return check_timeline(t, m, damaged);
  };
  CHECK_THAT(verdict({}), Catch::Contains("did not take its time"));
  CHECK_THAT(verdict({{1, 2}}), Catch::Contains("did not take its time"));
  CHECK_THAT(verdict({{1, 3}}), Catch::Contains("a variant that it has not"));
  CHECK_THAT(verdict({{1, 0}}), Catch::Contains("a variant that it has not"));
  CHECK_THAT(verdict({{7, 1}}), Catch::Contains("does not exist"));
  CHECK_THAT(verdict({{1, 1}, {1, 1}}), Catch::Contains("in two variants"));
  // The same time with another workspace.
  wire::Trace same_time = t;
  same_time.ops[1].variants = {{"small", 50, 10}, {"large", 50, 11}};
  SimulationReport small = timed_run(same_time, m, with_choice(1));
  small.variants[0].variant = 2;
  CHECK_THAT(check_timeline(same_time, m, small), !Catch::Equals(""));
}

TEST_CASE("Bounds are those of the least time and the least workspace") {
  const wire::Trace t = two_ways();
  const LowerBounds b = lower_bounds(t, two_tiers(1000));
  CHECK((b.compute_us == 25 && b.critical_path_us == 25));
  CHECK((b.max_live_bytes == 110 && b.largest_op_bytes == 110));
  CHECK(step_bound(t, two_tiers(1000)).step_us == 25);
  CHECK(timed_run(t, two_tiers(1000), with_choice(1)).bounds.compute_us == 25);
  CHECK(timed_run(t, two_tiers(1000), {}).bounds.compute_us == 25);
}

TEST_CASE("The fastest within some bytes, or the smallest") {
  const wire::TraceOp o = two_ways().ops[1];
  CHECK(fastest_within(o, 1000) == 2);
  CHECK(fastest_within(o, 300) == 2);
  CHECK(fastest_within(o, 299) == 0);
  CHECK(fastest_within(o, 99) == 1);
  CHECK(fastest_within(o, 9) == 1);
  CHECK(fastest_within(two_ways().ops[0], 0) == 0);
  const std::vector<std::uint32_t> chosen{0, 2};
  const std::vector<wire::VariantChoice> choices = choices_of(chosen);
  REQUIRE(choices.size() == 1);
  CHECK((choices[0].op == 1 && choices[0].variant == 2));
}

TEST_CASE("No job is given a schedule with variants: it runs its operations as it does") {
  wire::Schedule s = with_choice(1);
  s.period = 2;
  CHECK_THAT(wire::schedule_image(s, {"gpu", "host"}, {}).error, Catch::Contains("variants"));
  s.variants.clear();
  CHECK(wire::schedule_image(s, {"gpu", "host"}, {}).error.find("variants") == std::string::npos);
}

}  // namespace
}  // namespace terrace::planner
