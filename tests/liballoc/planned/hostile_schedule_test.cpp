// Schedules that lie: the program is slower at worst. Nothing hangs, nothing is lost, and memory stays within
// the budget.
#include <cstdlib>

#include "tests/liballoc/planned/layered_program.h"

using namespace terrace;
using namespace terrace::liballoc;
using namespace terrace::liballoc::test;

namespace {

struct Attacked : DramPager, LayeredProgram {
  explicit Attacked(MoverKind kind = any_kind())
      : DramPager(kind, 24), LayeredProgram(static_cast<PagerFixture&>(*this)) {
    if (ready()) learn();
  }
  void survive(const std::string& image, int steps = 3) {
    REQUIRE(send(image));
    for (int i = 0; i < steps; ++i) step();
    CHECK(pager.plan().is_following());
    CHECK(wrong() == 0);
    CHECK(most_backed() <= asked_budget());
    check();
  }
};

wire::Action any_action(Random& random) { return static_cast<wire::Action>(random.below(5)); }

// Any entries at all, of what is there and of what is not.
std::string any_plan(Attacked& f, Random& random) {
  PlanMaker plan(f.period(), LayeredProgram::hash);
  std::vector<std::uint32_t> objects;
  for (std::uint32_t birth = 0; birth < f.period(); ++birth)
    if (random.below(3) != 0) objects.push_back(plan.object(birth, (1 + random.below(12)) * (run_bytes / 2)));
  for (std::uint32_t id = 1; id < 40; ++id)
    if (random.below(3) == 0) objects.push_back(plan.object(wire::persistent, random.next() >> 8, id));
  const std::uint64_t entries = random.below(400);
  for (std::uint64_t i = 0; i < entries; ++i) {
    const std::uint32_t object = objects[random.below(objects.size())];
    const auto at = static_cast<std::uint32_t>(random.below(f.period() + 1));
    const auto by = at + static_cast<std::uint32_t>(random.below(f.period() + 1));
    const std::uint64_t size = plan.schedule().objects[object].bytes;
    const std::uint64_t begin = random.below(2) == 0 ? 0 : random.below(size);
    const bool is_rest = random.below(2) == 0;
    plan.add(object, any_action(random), at, by, begin,
             is_rest ? wire::whole_object : 1 + random.below(size - begin));
  }
  if (random.below(2) == 0) plan.schedule().in_order = wire::Order::deadline;
  if (random.below(2) == 0) plan.schedule().out_order = wire::Order::deadline;
  return plan.image();
}

double seconds_of_stress() {
  const char* const text = std::getenv("TERRACE_STRESS_SECONDS");
  return text != nullptr ? std::atof(text) : 1;
}

}  // namespace

TEST_CASE("ObjectsThatDoNotExist") {
  Attacked f;
  if (!f.ready()) return;
  PlanMaker plan(f.period(), LayeredProgram::hash);
  for (std::uint32_t i = 1; i < 200; ++i) {
    const std::uint32_t object = plan.object(wire::persistent, run_bytes, i * 1000003);
    plan.out(object, i % f.period(), i % f.period() + 1);
    plan.in(object, i % f.period(), i % f.period() + 1);
  }
  f.survive(plan.image());
  CHECK(f.statistics().planned_out_bytes == 0);
}

TEST_CASE("EverythingOutAtEachEvent") {
  Attacked f;
  if (!f.ready()) return;
  PlanMaker plan(f.period(), LayeredProgram::hash);
  for (std::size_t i = 0; i < f.layers(); ++i) {
    const std::uint32_t object = plan.object(f.birth(i), block_bytes);
    for (std::uint32_t at = 0; at < f.period(); ++at) plan.out(object, at, at);
  }
  f.survive(plan.image());
  CHECK(f.statistics().planned_out_bytes > 0);
  CHECK(f.statistics().unplanned_faults > 0);
}

TEST_CASE("OutAndInAtOnce") {
  Attacked f;
  if (!f.ready()) return;
  PlanMaker plan(f.period(), LayeredProgram::hash);
  for (std::size_t i = 0; i < f.layers(); ++i) {
    const std::uint32_t object = plan.object(f.birth(i), block_bytes);
    for (std::uint32_t at = 0; at < f.period(); ++at)
      at % 2 == 0 ? plan.out(object, at, at) : plan.in(object, at, at);
    plan.in(object, 10, 10);
    plan.out(object, 10, 10);
  }
  f.survive(plan.image());
}

TEST_CASE("WhatLivesIsNeverDropped") {
  Attacked f;
  if (!f.ready()) return;
  PlanMaker plan(f.period(), LayeredProgram::hash);
  for (std::size_t i = 0; i < f.layers(); ++i) {
    const std::uint32_t object = plan.object(f.birth(i), block_bytes);
    plan.add(object, wire::Action::drop, f.birth(i) + 2, f.birth(i) + 2);
    plan.add(object, wire::Action::redo, f.birth(i) + 3, f.birth(i) + 3);
    plan.add(object, wire::Action::wait, f.birth(i) + 4, f.birth(i) + 4);
  }
  f.survive(plan.image());
}

TEST_CASE("AnythingAtAll") {
  Attacked f;
  if (!f.ready()) return;
  const std::uint64_t end = os::now_ns() + static_cast<std::uint64_t>(seconds_of_stress() * 1e9);
  // Two plans may happen to bring nothing back, on a machine that is slow just then.
  const auto goes_on = [&](std::uint64_t seed) {
    return seed <= 2 || os::now_ns() < end || (seed <= 20 && f.statistics().planned_in_bytes == 0);
  };
  for (std::uint64_t seed = 1; goes_on(seed); ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    // Between events all that there is to do, a little, or nothing.
    f.after_event = [&] {
      const std::uint64_t much = random.below(8);
      if (much == 0) f.settle();
      if (much > 4) f.balance();
      if (much > 5) f.complete();
    };
    if (random.below(4) == 0) f.pager.set_budget((16 + random.below(9)) * run_bytes);
    REQUIRE(f.send(any_plan(f, random)));
    if (random.below(6) == 0) f.do_something_else();
    for (std::uint64_t steps = 1 + random.below(3); steps > 0; --steps) f.step();
    f.pager.set_budget(f.asked_budget());
    REQUIRE(f.wrong() == 0);
    REQUIRE(f.most_backed() <= f.asked_budget());
    f.check();
  }
  f.settle();
  CHECK(f.statistics().planned_steps > 0);
  CHECK(f.statistics().planned_out_bytes > 0);
  CHECK(f.statistics().planned_in_bytes > 0);
  CHECK(f.statistics().lost_runs == 0);
}
