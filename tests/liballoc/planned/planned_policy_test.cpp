// What the schedule names leaves and returns when it says, and the program does not wait.
#include "tests/liballoc/planned/layered_program.h"

using namespace terrace;
using namespace terrace::liballoc;
using namespace terrace::liballoc::test;

namespace {

struct Planned : DramPager, LayeredProgram {
  explicit Planned(MoverKind kind = any_kind(), std::size_t runs = 24)
      : DramPager(kind, runs), LayeredProgram(static_cast<PagerFixture&>(*this)) {}
};

}  // namespace

TEST_CASE("WhatTheScheduleNamesIsBackBeforeItsTouch") {
  Planned f;
  if (!f.ready()) return;
  f.follow(LayeredProgram::planned_layers);
  const terrace_statistics before = f.statistics();
  constexpr std::size_t steps = 3;
  for (std::size_t i = 0; i < steps; ++i) f.step();
  const terrace_statistics after = f.statistics();
  CHECK(after.planned_steps == before.planned_steps + steps);
  CHECK(after.planned_late == before.planned_late);
  CHECK(after.unplanned_faults == before.unplanned_faults);
  const std::uint64_t moved = steps * LayeredProgram::planned_layers * block_bytes;
  CHECK(after.planned_out_bytes - before.planned_out_bytes == moved);
  CHECK(after.planned_in_bytes - before.planned_in_bytes == moved);
  CHECK(after.evicted_bytes - before.evicted_bytes == moved);
  CHECK(f.wrong() == 0);
  CHECK(f.most_backed() <= f.asked_budget());
}

// An entry stands just before its event: until that has come the program is in the interval before, and may
// use what is to leave.
TEST_CASE("WhatLeavesIsThereUntilTheEventThatItLeavesAt") {
  Planned f;
  if (!f.ready()) return;
  f.follow(1);
  const std::uint32_t at = f.birth(0) + 2;
  std::size_t looks = 0, away_before = 0, away_then = 0;
  f.after_event = [&] {
    f.settle();
    if (f.last_ordinal() != at - 1 && f.last_ordinal() != at) return;
    ++looks;
    (f.last_ordinal() == at ? away_then : away_before) += f.away(0);
  };
  f.step();
  CHECK(looks == 2);
  CHECK(away_before == 0);
  CHECK(away_then == LayeredProgram::runs_per_layer);
  CHECK(f.wrong() == 0);
}

TEST_CASE("ObjectsLeaveAndReturnAtTheirOrdinals") {
  Planned f;
  if (!f.ready()) return;
  f.follow(LayeredProgram::planned_layers);
  std::size_t early = 0, stayed = 0, absent = 0, returned = 0;
  f.written = [&](std::size_t layer) {
    early += f.away(layer);
    if (layer > 0 && layer <= LayeredProgram::planned_layers)
      stayed += LayeredProgram::runs_per_layer - f.away(layer - 1);
  };
  f.to_be_read = [&](std::size_t layer) {
    if (layer < LayeredProgram::planned_layers) absent += f.away(layer);
    // Two layers ahead it is still away: it returns between.
    if (layer >= 3 && layer - 3 < LayeredProgram::planned_layers)
      returned += LayeredProgram::runs_per_layer - f.away(layer - 3);
  };
  f.step();
  CHECK(early == 0);
  CHECK(stayed == 0);
  CHECK(absent == 0);
  CHECK(returned == 0);
}

TEST_CASE("ScheduledObjectsThatComeBackUnchangedLeaveWithoutAWrite") {
  // Nothing else has to leave, not even where the small blocks lie on memory of blocks that were freed.
  RawDramPager f(any_kind(), 2 * budget_runs);
  if (!f.ready()) return;
  LayeredProgram program(f, 7);
  program.learn();
  std::byte* const weights = f.allocate_filled(4 * run_bytes, 7);
  program.step();  // noise of one event is none to the clock
  PlanMaker plan(program.period(), LayeredProgram::hash);
  const std::uint32_t object = plan.object(wire::persistent, 4 * run_bytes, f.id_of(weights));
  plan.out(object, 10, 20);
  plan.in(object, 40, 60);
  REQUIRE(program.send(plan.image()));
  // Until each run of it was written once: the kernel may refuse one now and then.
  for (int i = 0; i < 6 && (i < 2 || f.extent_bytes(weights, 4 * run_bytes) < 4 * run_bytes); ++i)
    program.step();
  REQUIRE(f.extent_bytes(weights, 4 * run_bytes) == 4 * run_bytes);
  REQUIRE(f.pager.plan().is_following());
  const terrace_statistics before = f.statistics();
  for (int i = 0; i < 3; ++i) program.step();
  const terrace_statistics after = f.statistics();
  CHECK(after.planned_out_bytes - before.planned_out_bytes == 3 * 4 * run_bytes);
  CHECK(after.evicted_bytes - before.evicted_bytes == 3 * 4 * run_bytes);
  CHECK(after.written_bytes == before.written_bytes);
  CHECK(f.reads(weights, 7, 4 * run_bytes));
  f.write(weights, 8, 4 * run_bytes);
  for (int i = 0; i < 2; ++i) program.step();
  CHECK(f.statistics().written_bytes >= after.written_bytes + 4 * run_bytes);
  CHECK(f.reads(weights, 8, 4 * run_bytes));
}

TEST_CASE("AnObjectThatIsFreedUnderWayIsNobodysAnyMore") {
  Planned f;
  if (!f.ready()) return;
  f.learn();
  PlanMaker plan(f.period(), LayeredProgram::hash);
  // Asked for back just before it is freed, and out again in the event before that.
  for (std::size_t i = 0; i < LayeredProgram::planned_layers; ++i) {
    const std::uint32_t object = plan.object(f.birth(i), block_bytes);
    plan.out(object, f.death(i) - 1, f.death(i) + 5);
    plan.in(object, f.death(i), f.death(i) + 1);
  }
  REQUIRE(f.send(plan.image()));
  f.after_event = [&] { f.balance(); };  // what was begun has not ended when the block goes
  for (int i = 0; i < 4; ++i) f.step();
  CHECK(f.wrong() == 0);
  CHECK(f.statistics().planned_out_bytes > 0);
  f.settle();
  f.check();
}

TEST_CASE("ATouchOfWhatIsNotBackYetIsLateAndMovesItsTrigger") {
  Planned f;
  if (!f.ready()) return;
  f.learn();
  PlanMaker plan(f.period(), LayeredProgram::hash);
  const std::uint32_t object = plan.object(f.birth(0), block_bytes);
  plan.out(object, f.birth(0) + 2, f.birth(0) + 10);
  plan.in(object, f.death(1) + 3, f.death(0));
  REQUIRE(f.send(plan.image()));
  f.step();
  f.step();
  REQUIRE(f.pager.plan().is_following());
  const terrace_statistics before = f.statistics();
  // From its trigger on nothing is done until it is touched.
  f.to_be_read = [&](std::size_t layer) {
    if (layer == 1) f.after_event = [&] { f.pager.follow_blocks(); };
    if (layer != 0) return;
    const std::uint64_t faults = f.statistics().faults;
    std::atomic<bool> is_zero{false};
    f.with([&] { is_zero = *f.block(0) == std::byte{0}; },
           [&] { f.statistics().faults == faults ? f.serve_faults() : f.pump(); });
    f.after_event = [&] { f.settle(); };
    f.to_be_read = [](std::size_t) {};
  };
  f.step();
  const terrace_statistics late = f.statistics();
  CHECK(late.planned_late > before.planned_late);
  f.step();
  CHECK(f.statistics().planned_late == late.planned_late);  // one ordinal earlier it is in time
  CHECK(f.wrong() == 0);
}

TEST_CASE("TheProducerWakesTheAgentAtTriggersAlone") {
  Planned f;
  if (!f.ready()) return;
  f.follow(1);
  const std::uint32_t before = f.queue().marks_reached();
  std::size_t wakes = 0;
  // As Heap asks after each event; so much is never worth a look for its size.
  f.after_event = [&] {
    wakes += f.queue().is_worth_a_look(~0U) ? 1 : 0;
    f.settle();
  };
  f.step();
  CHECK(f.queue().marks_reached() - before == wakes);
  CHECK(wakes >= 2);  // out and in
  CHECK(wakes <= 4);  // and the period's beginning
}

TEST_CASE("WhatIsFreedBeforeItsNextUseStays") {
  Planned f(any_kind(), 20);
  if (!f.ready()) return;
  // The last layers are not named; those that have returned have no entry left in this period. One more block
  // than planned takes their room.
  f.follow(LayeredProgram::planned_layers);
  const terrace_statistics before = f.statistics();
  std::byte* more = nullptr;
  f.to_be_read = [&](std::size_t layer) {
    if (layer == 2) more = f.DramPager::allocate(6 * run_bytes);
    if (layer == 2) f.write(more, 99, 6 * run_bytes);
    if (layer == 0) f.DramPager::release(more);
  };
  f.step();
  const terrace_statistics after = f.statistics();
  CHECK(after.unplanned_faults == before.unplanned_faults);
  CHECK(f.wrong() == 0);
  CHECK(f.most_backed() <= f.asked_budget());
}
