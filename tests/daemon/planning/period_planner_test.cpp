#include "daemon/planning/period_planner.h"

#include <catch2/catch.hpp>
#include <map>

#include "liballoc/wire/schedule/image.h"
#include "tests/daemon/planning/made_periods.h"
#include "tests/units.h"

namespace terrace::daemon {
namespace {

using Catch::Matchers::Contains;
using tests::TrainingShape;

struct Planned {
  std::string image;
  wire::OpenedPeriod opened;
  PeriodPlanner planner;

  explicit Planned(const wire::PeriodDraft& draft, const PlanSettings& settings = {})
      : image(tests::image_of(draft)),
        opened(wire::open_period(std::as_bytes(std::span(image)))),
        planner(opened.view, settings) {}
};

// The most that lives at once.
std::uint64_t peak_of(const TrainingShape& shape) {
  return shape.layers * (shape.activation_bytes + shape.weight_bytes) + 2 * shape.weight_bytes;
}

std::uint32_t age(const wire::PeriodObject& o, std::uint32_t ordinal, std::uint32_t events) {
  return o.birth == wire::persistent ? ordinal % events : (ordinal + events - o.birth) % events;
}

// What must hold of each entry, by the period alone: it moves an object that lives, between two uses, and
// whoever comes in does so for the next one.
void check_entries(const wire::PeriodView& period, const wire::ScheduleView& schedule) {
  const auto events = static_cast<std::uint32_t>(period.events.size());
  std::map<std::pair<std::uint32_t, std::uint32_t>, const wire::PeriodObject*> by_name;
  for (const wire::PeriodObject& o : period.objects) by_name[{o.birth, o.place}] = &o;
  for (const wire::ScheduleEntry& e : schedule.entries) {
    const wire::ScheduleObject& named = schedule.objects[e.object];
    REQUIRE(by_name.contains({named.birth, named.place}));
    const wire::PeriodObject& o = *by_name[{named.birth, named.place}];
    CHECK(named.bytes == o.bytes);
    REQUIRE(wire::moves(e.action));
    CHECK(e.tier == 1);
    CHECK(e.codec == 0);
    if (o.birth == wire::persistent) continue;  // it is always used again
    const std::uint32_t last_use = age(o, period.uses_of(o).back().interval, events);
    CHECK(age(o, e.at, events) <= last_use);
    CHECK(age(o, e.by, events) <= last_use);
    const auto uses = period.uses_of(o);
    const bool is_due_at_a_use = std::any_of(
        uses.begin(), uses.end(), [&](const wire::PeriodUse& use) { return use.interval == e.by % events; });
    CHECK(is_due_at_a_use);
  }
}

}  // namespace

TEST_CASE("A training step with bandwidth enough is planned to take hardly more than computing") {
  const TrainingShape shape;
  for (const char* policy : {"sentinel_interval", "capuchin_swap", "g10"}) {
    CAPTURE(policy);
    Planned p(tests::training_step(shape).draft(peak_of(shape) * 6 / 10, policy, 4'000'000'000));
    const auto plan = p.planner.quick();
    INFO(plan.error);
    REQUIRE(plan);
    CHECK(plan->policy == policy);
    CHECK(plan->entries > 0);
    CHECK(plan->step_us < plan->on_demand_us);
    CHECK(plan->step_us < 1.1 * plan->computing_us);
    const auto schedule = wire::open_schedule(std::as_bytes(std::span(plan->image)));
    REQUIRE(schedule);
    CHECK(schedule.view.header->period == p.opened.view.events.size());
    CHECK(schedule.view.header->period_hash == 0xfeedbeefcafe);
    CHECK(schedule.view.header->clock == wire::Clock::allocations);
    CHECK(schedule.view.header->step_us == plan->step_us);
    CHECK(wire::text_of(schedule.view.header->policy) == policy);
    CHECK(wire::text_of(schedule.view.tiers[1].name) == "nvme");
    check_entries(p.opened.view, schedule.view);
  }
}

TEST_CASE("A training step with too little bandwidth is planned to wait for the drive and no more") {
  const TrainingShape shape;
  Planned p(tests::training_step(shape).draft(peak_of(shape) * 5 / 10, "g10", 200'000'000));
  const auto plan = p.planner.quick();
  INFO(plan.error);
  REQUIRE(plan);
  CHECK(plan->step_us > 1.2 * plan->computing_us);
  CHECK(plan->step_us < plan->on_demand_us);
}

TEST_CASE("Gradients that the next step frees are not counted where they are freed") {
  TrainingShape shape;
  shape.frees_gradients_in_next_step = true;
  shape.weight_bytes = 32 * tests::mib;
  // All fits but for what lives at the backward pass's beginning: activations and weights.
  Planned p(tests::training_step(shape).draft(peak_of(shape) * 7 / 10, "g10", 4'000'000'000));
  const auto plan = p.planner.quick();
  INFO(plan.error);
  REQUIRE(plan);
  const auto schedule = wire::open_schedule(std::as_bytes(std::span(plan->image)));
  REQUIRE(schedule);
  check_entries(p.opened.view, schedule.view);
}

TEST_CASE("Where all fits nothing is planned and the reason says so") {
  const TrainingShape shape;
  Planned p(tests::training_step(shape).draft(2 * peak_of(shape)));
  CHECK_THAT(p.planner.quick().error, Contains("nothing has to move"));
}

TEST_CASE("A budget that what cannot move fills has no plan") {
  const TrainingShape shape;
  wire::PeriodDraft draft = tests::training_step(shape).draft(peak_of(shape) / 2);
  draft.header.fixed_bytes = peak_of(shape) / 2;
  CHECK_THAT(Planned(draft).planner.quick().error, Contains("give the job more"));
  draft.header.fixed_bytes = peak_of(shape) / 2 - reserve_bytes(draft.header.budget_bytes) - tests::mib;
  CHECK_THAT(Planned(draft).planner.quick().error, Contains("interval"));  // which no room can hold
}

TEST_CASE("The job's policy goes before the daemon's and must be known") {
  const TrainingShape shape;
  const auto asked = [&](const char* policy, const char* of_daemon) {
    return Planned(tests::training_step(shape).draft(peak_of(shape) / 2, policy), {of_daemon});
  };
  CHECK(asked("", "sentinel_interval").planner.quick()->policy == "sentinel_interval");
  CHECK(asked("g10", "reactive").planner.quick()->policy == "g10");
  CHECK_THAT(asked("", "reactive").planner.quick().error, Contains("follows no plan"));
  CHECK_THAT(asked("lru", "g10").planner.quick().error, Contains("no policy \"lru\"") && Contains("joint"));
  CHECK_THAT(asked("\x1b[2J\xff", "g10").planner.quick().error, !Contains("\x1b") && !Contains("\xff"));
}

TEST_CASE("A search sends a plan only if it is better than the quick one and stops when told") {
  const TrainingShape shape{.layers = 8};
  Planned p(tests::training_step(shape).draft(peak_of(shape) * 5 / 10, "joint", 400'000'000));
  CHECK(p.planner.searches());
  const auto quick = p.planner.quick();
  REQUIRE(quick);
  CHECK(quick->policy == "joint");
  int asked = 0;
  const auto better = p.planner.better({.seed = 1, .effort = 1, .stop = [&] { return ++asked > 200; }});
  CHECK(asked > 0);
  if (better) {
    CHECK(better->step_us <= 0.99 * quick->step_us);
    const auto schedule = wire::open_schedule(std::as_bytes(std::span(better->image)));
    REQUIRE(schedule);
    check_entries(p.opened.view, schedule.view);
  }
  CHECK_FALSE(Planned(tests::training_step(shape).draft(peak_of(shape) / 2, "g10")).planner.better({}));
}

TEST_CASE("A period with more uses than are planned in time is refused before it is planned") {
  tests::PeriodMaker p;
  for (std::uint32_t k = 0; k < 64; ++k) p.allocate(tests::mib, 1000);
  for (std::uint32_t o = 0; o < 4000; ++o) {
    const auto kept = p.keep(tests::mib);
    for (std::uint32_t k = 0; k < 64; ++k) p.use_in(kept, k, true);
  }
  CHECK_THAT(Planned(p.draft(tests::gib)).planner.quick().error, Contains("planned in time"));
}

// A period that cannot be measured yet is planned with the speeds of a drive that is known.
TEST_CASE("Without measured speeds a plan is made all the same") {
  const TrainingShape shape;
  Planned p(tests::training_step(shape).draft(peak_of(shape) / 2, "g10", 0));
  CHECK(p.planner.quick());
}

}  // namespace terrace::daemon
