// Whether a plan goes on: steps with it and without it, made up.
#include <algorithm>
#include <catch2/catch.hpp>

#include "liballoc/paging/planned/plan_trial.h"

namespace terrace::liballoc {
namespace {

// Steps as a job does them: each is run as the trial asks for. How many of them were planned.
unsigned run_steps(PlanTrial& trial, unsigned steps, std::uint64_t reactive_ns, std::uint64_t planned_ns) {
  unsigned planned = 0;
  for (unsigned i = 0; i < steps; ++i) {
    const bool follows = trial.follows();
    planned += follows ? 1 : 0;
    trial.note_step(follows ? planned_ns : reactive_ns, follows);
  }
  return planned;
}

PlanTrial with_a_plan() {
  PlanTrial trial;
  trial.take_plan(true);
  return trial;
}

constexpr unsigned compared = PlanTrial::settling + PlanTrial::sample;

}  // namespace

TEST_CASE("A plan is compared with steps without it before it is followed") {
  PlanTrial trial = with_a_plan();
  CHECK(run_steps(trial, compared, 1000, 900) == 0);
  CHECK(trial.follows());
  CHECK(trial.reactive_ns() == 1000);
  CHECK(trial.planned_ns() == 0);
}

TEST_CASE("A plan that makes steps no slower is kept") {
  PlanTrial trial = with_a_plan();
  // Compared once more, after the first 64 steps and before the next 128.
  CHECK(run_steps(trial, 200, 1000, 1019) == 200 - 2 * compared);
  CHECK(trial.follows());
  CHECK(trial.planned_ns() == 1019);
  CHECK(trial.refusals() == 0);
  CHECK(run_steps(trial, 10000, 1000, 1019) > 10000 - 16 * compared);
}

TEST_CASE("A plan that was compared with slow steps is found out when the machine is quick again") {
  PlanTrial trial = with_a_plan();
  run_steps(trial, 4 * compared, 1080, 1050);
  REQUIRE(trial.follows());
  const unsigned planned = run_steps(trial, 80, 1000, 1050);
  CHECK(planned <= PlanTrial::least_kept + compared);
  CHECK(trial.is_refused());
  CHECK(trial.refusals() == 1);
}

TEST_CASE("A plan that is compared anew rests and is not laid aside") {
  PlanTrial trial = with_a_plan();
  run_steps(trial, 50, 1000, 900);
  for (std::uint32_t i = 0; i < 2 * PlanTrial::least_kept && trial.follows(); ++i) trial.note_step(900, true);
  CHECK_FALSE(trial.follows());
  CHECK_FALSE(trial.is_refused());
}

TEST_CASE("A plan that makes steps slower is laid aside and seldom tried again") {
  PlanTrial trial = with_a_plan();
  const unsigned planned = run_steps(trial, 2000, 1000, 1050);
  CHECK(trial.refusals() > 1);
  CHECK(planned <= 7 * compared);  // pauses of 32, 64, 128 ... steps
  CHECK(planned >= 5 * compared);
}

TEST_CASE("A few slow steps say nothing") {
  PlanTrial trial = with_a_plan();
  run_steps(trial, compared, 1000, 0);
  for (int i = 0; i < 60; ++i) trial.note_step(i % 5 < 2 ? 5000 : 950, true);
  CHECK(trial.follows());
  CHECK(trial.refusals() == 0);
}

TEST_CASE("The first steps after a change count for neither") {
  PlanTrial trial = with_a_plan();
  run_steps(trial, compared, 1000, 0);
  for (std::uint32_t i = 0; i < PlanTrial::settling; ++i) trial.note_step(9000, true);
  for (std::uint32_t i = 0; i < PlanTrial::sample; ++i) trial.note_step(900, true);
  CHECK(trial.follows());
  CHECK(trial.planned_ns() == 900);
}

TEST_CASE("A plan that was good and is not any more is compared anew") {
  PlanTrial trial = with_a_plan();
  run_steps(trial, 50, 1000, 900);
  CHECK(trial.follows());
  // The machine is slower now, with the plan and without.
  CHECK(run_steps(trial, 50, 1500, 1400) < 50);
  CHECK(trial.reactive_ns() == 1500);
  CHECK(trial.follows());
  CHECK(trial.refusals() == 0);
}

TEST_CASE("A step in which the plan was left or begun is not counted") {
  PlanTrial trial = with_a_plan();
  for (int i = 0; i < 100; ++i) trial.note_step(1000, true);
  CHECK_FALSE(trial.follows());
  CHECK(trial.reactive_ns() == 0);
}

TEST_CASE("Steps from before the first plan are what it is compared with") {
  PlanTrial trial;
  run_steps(trial, PlanTrial::least_sample, 1000, 0);
  trial.take_plan(true);
  CHECK(trial.follows());
  run_steps(trial, compared, 0, 1100);
  CHECK(trial.is_refused());
  CHECK(trial.refusals() == 1);
}

TEST_CASE("A plan that comes after one step is tried at once and kept for a short time") {
  PlanTrial trial;
  run_steps(trial, 1, 1000, 0);
  trial.take_plan(true);
  CHECK(run_steps(trial, 60, 1000, 1010) == 60 - compared);  // compared once, before it is kept for longer
  CHECK(trial.follows());
  CHECK(trial.refusals() == 0);
}

TEST_CASE("A plan that is slower than the few steps before it is compared with more") {
  PlanTrial trial;
  run_steps(trial, PlanTrial::least_sample - 1, 1000, 0);
  trial.take_plan(true);
  CHECK(run_steps(trial, compared, 1200, 1100) == compared);
  CHECK_FALSE(trial.follows());
  CHECK_FALSE(trial.is_refused());
  run_steps(trial, compared, 1200, 1100);  // those before were quicker than the machine is now
  CHECK(trial.follows());
  run_steps(trial, compared, 1200, 1100);
  CHECK(trial.follows());
  CHECK(trial.refusals() == 0);
  PlanTrial slow = trial;
  run_steps(slow, 40, 1000, 1100);
  CHECK(slow.is_refused());
}

TEST_CASE("A plan whose steps become shorter is tried for longer") {
  PlanTrial trial = with_a_plan();
  run_steps(trial, compared, 1000, 0);
  std::uint64_t planned_ns = 1400;
  for (std::uint32_t i = 0; i < PlanTrial::settling + PlanTrial::most_tried; ++i, planned_ns -= 40)
    trial.note_step(std::max<std::uint64_t>(planned_ns, 980), trial.follows());
  CHECK(trial.follows());
  CHECK(trial.refusals() == 0);
}

TEST_CASE("A plan whose steps become shorter and stay slow is laid aside") {
  PlanTrial trial = with_a_plan();
  run_steps(trial, compared, 1000, 0);
  std::uint64_t planned_ns = 3000;
  std::uint32_t planned = 0;
  for (; trial.follows() && planned < 100; ++planned, planned_ns -= 50) trial.note_step(planned_ns, true);
  CHECK(trial.is_refused());
  CHECK(planned == PlanTrial::settling + PlanTrial::most_tried);
}

TEST_CASE("Without a plan nothing is tried") {
  PlanTrial trial;
  CHECK(run_steps(trial, 300, 1000, 500) == 0);
}

TEST_CASE("Another plan for the same budget does not end a pause") {
  PlanTrial trial = with_a_plan();
  run_steps(trial, 2 * compared, 1000, 2000);
  CHECK_FALSE(trial.follows());
  trial.take_plan(true);
  CHECK_FALSE(trial.follows());
  trial.take_plan(false);
  CHECK_FALSE(trial.follows());
  CHECK(trial.reactive_ns() == 0);
  CHECK(run_steps(trial, 3 * compared, 1000, 500) == 2 * compared);
}

}  // namespace terrace::liballoc
