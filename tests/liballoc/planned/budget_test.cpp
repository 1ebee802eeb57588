// A schedule is for a budget.
#include "tests/liballoc/planned/layered_program.h"

using namespace terrace;
using namespace terrace::liballoc;
using namespace terrace::liballoc::test;

namespace {

constexpr std::uint64_t whole_budget = 24 * run_bytes;

struct Granted : DramPager, LayeredProgram {
  explicit Granted(MoverKind kind = any_kind())
      : DramPager(kind, 24), LayeredProgram(static_cast<PagerFixture&>(*this)) {
    if (!ready()) return;
    follow(LayeredProgram::planned_layers, whole_budget);
  }
};

}  // namespace

TEST_CASE("ABudgetThatFallsEndsTheScheduleWithTheNextEvent") {
  Granted f;
  if (!f.ready()) return;
  f.pager.set_budget(whole_budget - run_bytes);  // by less than a twentieth
  f.step();
  CHECK(f.pager.plan().is_following());
  bool is_followed = true;
  f.written = [&](std::size_t layer) {
    if (layer == 4) f.pager.set_budget(16 * run_bytes);
    if (layer == 5) is_followed = f.pager.plan().is_following();
  };
  f.step();
  CHECK_FALSE(is_followed);
  f.written = [](std::size_t) {};
  f.step();
  CHECK_FALSE(f.pager.plan().is_following());
  f.settle();
  CHECK(f.pager.budget().backed_bytes() <= 16 * run_bytes);
  f.pager.set_budget(whole_budget);
  f.step();
  f.step();
  CHECK(f.pager.plan().is_following());
  CHECK(f.wrong() == 0);
}

TEST_CASE("APlanForASmallerBudgetIsFollowedOnceItHasComeForIt") {
  Granted f;
  if (!f.ready()) return;
  f.pager.set_budget(18 * run_bytes);
  f.step();
  REQUIRE_FALSE(f.pager.plan().is_following());
  REQUIRE(f.send(f.plan(LayeredProgram::planned_layers + 2), 18 * run_bytes));
  f.step();
  f.step();
  CHECK(f.pager.plan().is_following());
  CHECK(f.wrong() == 0);
}

TEST_CASE("WhatIsToReturnWaitsForRoomAndNothingElseHangs") {
  Granted f;
  if (!f.ready()) return;
  // A schedule that brings all back at once while all else is there, too.
  PlanMaker plan(f.period(), LayeredProgram::hash);
  for (std::size_t i = 0; i < 9; ++i) {
    const std::uint32_t object = plan.object(f.birth(i), block_bytes);
    plan.out(object, f.birth(i) + 2, f.birth(i) + 10);
    plan.in(object, f.death(9), f.death(9) + 1);
  }
  REQUIRE(f.send(plan.image(), whole_budget));
  for (int i = 0; i < 3; ++i) f.step();
  CHECK(f.pager.plan().is_following());
  CHECK(f.wrong() == 0);
  CHECK(f.most_backed() <= f.asked_budget());
}
