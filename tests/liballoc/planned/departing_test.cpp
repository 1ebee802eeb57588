// The program leaves what it repeated, changes its step, forks, or gets another schedule.
#include "tests/liballoc/planned/layered_program.h"

using namespace terrace;
using namespace terrace::liballoc;
using namespace terrace::liballoc::test;

namespace {

struct Followed : DramPager, LayeredProgram {
  explicit Followed(MoverKind kind = any_kind())
      : DramPager(kind, 24), LayeredProgram(static_cast<PagerFixture&>(*this)) {
    if (!ready()) return;
    follow(LayeredProgram::planned_layers);
  }
};

}  // namespace

TEST_CASE("WhoDepartsIsReactiveWithinThatEvent") {
  Followed f;
  if (!f.ready()) return;
  const std::uint64_t departures = f.statistics().departures;
  std::size_t followed_after = 0;
  f.after_event = [&] {
    const bool has_departed = f.statistics().departures > departures;
    followed_after += has_departed && f.pager.plan().is_following() ? 1 : 0;
    f.settle();
  };
  f.do_something_else();
  REQUIRE(f.statistics().departures == departures + 1);
  CHECK(followed_after == 0);
  const terrace_statistics reactive = f.statistics();
  std::vector<std::byte*> blocks = allocate_blocks(f, 12);
  fill_blocks(f, blocks);
  CHECK(wrong_blocks(f, blocks) == 0);
  for (std::byte* block : blocks) f.DramPager::release(block);
  CHECK(f.statistics().planned_out_bytes == reactive.planned_out_bytes);
  CHECK(f.statistics().evicted_bytes > reactive.evicted_bytes);
  // And back: the schedule is still there.
  f.after_event = [&] { f.settle(); };
  for (int i = 0; i < 4; ++i) f.step();
  CHECK(f.pager.plan().is_following());
  CHECK(f.statistics().planned_steps > reactive.planned_steps);
  CHECK(f.wrong() == 0);
}

TEST_CASE("WhoDepartsInTheMiddleOfAStepLosesNothing") {
  Followed f;
  if (!f.ready()) return;
  bool has_departed = false;
  f.after_event = [&] { f.serve_faults(); };  // moves are under way
  f.to_be_read = [&](std::size_t layer) {
    if (layer != 4 || has_departed) return;
    has_departed = true;
    f.do_something_else();
  };
  f.step();
  CHECK(f.wrong() == 0);
  CHECK_FALSE(f.pager.plan().is_following());
  f.settle();
  f.check();
}

TEST_CASE("PhasesByTurnsHaveAScheduleEach") {
  DramPager f(any_kind(), 24);
  if (!f.ready()) return;
  EventClock clock;
  REQUIRE(clock.initialise(f.space.most_records()) == 0);
  LayeredProgram training(f, 10, 0, &clock), testing(f, 9, 3, &clock);
  training.learn();
  REQUIRE(training.send(training.plan(5)));
  testing.learn();
  REQUIRE(testing.phase() != training.phase());
  REQUIRE(testing.send(testing.plan(4)));
  for (int turn = 0; turn < 3; ++turn) {
    for (LayeredProgram* program : {&training, &testing}) {
      for (int i = 0; i < 4; ++i) program->step();
      CHECK(f.pager.plan().is_following());
      const terrace_statistics before = f.statistics();
      program->step();
      CHECK(f.statistics().planned_steps == before.planned_steps + 1);
      const std::size_t layers = program == &training ? 5 : 4;
      CHECK(f.statistics().planned_in_bytes - before.planned_in_bytes == layers * block_bytes);
    }
  }
  CHECK(training.wrong() + testing.wrong() == 0);
  clock.finish();
}

TEST_CASE("ANewerScheduleIsFollowedFromTheNextPeriodOn") {
  Followed f;
  if (!f.ready()) return;
  bool is_sent = false;
  f.after_event = [&] { f.serve_faults(); };
  f.written = [&](std::size_t layer) {
    if (layer == 3 && !is_sent) is_sent = f.send(f.plan(2));
  };
  const terrace_statistics before = f.statistics();
  f.step();
  REQUIRE(is_sent);
  f.after_event = [&] { f.settle(); };
  f.step();
  const terrace_statistics replaced = f.statistics();
  f.step();
  CHECK(f.statistics().planned_out_bytes - replaced.planned_out_bytes == 2 * block_bytes);
  CHECK(f.statistics().planned_steps > before.planned_steps);
  CHECK(f.wrong() == 0);
}

TEST_CASE("ARefusedScheduleChangesNothing") {
  Followed f;
  if (!f.ready()) return;
  std::string image = f.plan(2);
  image[image.size() - 3] = static_cast<char>(image[image.size() - 3] ^ 1);
  CHECK_FALSE(f.send(image));
  f.step();
  const terrace_statistics before = f.statistics();
  f.step();
  CHECK(f.statistics().planned_out_bytes - before.planned_out_bytes ==
        LayeredProgram::planned_layers * block_bytes);
}

TEST_CASE("AScheduleForAnotherLengthIsNotFollowed") {
  DramPager f(any_kind(), 24);
  if (!f.ready()) return;
  LayeredProgram program(f);
  program.learn();
  PlanMaker plan(program.period() + 1, LayeredProgram::hash);
  plan.out(plan.object(program.birth(0), block_bytes), 20, 30);
  REQUIRE(program.send(plan.image()));
  for (int i = 0; i < 3; ++i) program.step();
  CHECK_FALSE(f.pager.plan().is_following());
  CHECK(program.wrong() == 0);
}

TEST_CASE("AForkedChildFollowsNothingAndHasItsBytes") {
  Followed f;
  if (!f.ready()) return;
  int result = -1;
  f.after_event = [&] { f.balance(); };  // out and in are under way
  f.to_be_read = [&](std::size_t layer) {
    if (layer != LayeredProgram::planned_layers - 1 || result != -1) return;
    f.pager.forking().prepare(0);
    f.pager.follow_blocks();
    f.pager.forking().seal();
    result = in_child([&] {
      f.pager.forking().after_in_child();
      return f.pager.plan().is_following() ? 1 : 0;
    });
    f.pager.forking().after_in_parent(true);
  };
  f.step();
  CHECK(result == 0);
  f.after_event = [&] { f.settle(); };
  f.step();
  CHECK(f.wrong() == 0);
  CHECK(f.pager.plan().is_following());
}

namespace {

// Steps are slow as long as `is_slow` says so, by far more than anything else takes.
template <class IsSlow>
void slow_down(DramPager& f, LayeredProgram& program, IsSlow is_slow) {
  program.after_event = [&f, is_slow] {
    f.settle();
    const timespec pause{0, 1'000'000};
    if (is_slow()) nanosleep(&pause, nullptr);
  };
}

struct Judged : DramPager, LayeredProgram {
  Judged() : DramPager(any_kind(), 24), LayeredProgram(static_cast<PagerFixture&>(*this)) {}
  // What steps take without the plan is known when it comes.
  void begin() {
    learn();
    for (std::uint32_t i = 0; i < PlanTrial::settling + PlanTrial::sample; ++i) step();
    REQUIRE(send(plan(LayeredProgram::planned_layers)));
    pager.plan().let_judge(true);
  }
};

}  // namespace

TEST_CASE("APlanThatMakesStepsSlowerIsLaidAside") {
  Judged f;
  if (!f.ready()) return;
  slow_down(f, f, [&] { return f.pager.plan().is_following(); });
  f.begin();
  std::uint32_t followed = 0;
  for (std::uint32_t i = 0; i < PlanTrial::least_pause; ++i) {
    f.step();
    followed += f.pager.plan().is_following() ? 1 : 0;
  }
  CHECK(f.statistics().plan_refusals == 1);
  CHECK(followed > 0);
  CHECK(followed <= PlanTrial::settling + PlanTrial::most_tried + 1);  // a busy machine may quicken
  CHECK_FALSE(f.pager.plan().is_following());
  CHECK(f.wrong() == 0);
}

TEST_CASE("APlanThatMakesStepsFasterIsKept") {
  Judged f;
  if (!f.ready()) return;
  slow_down(f, f, [&] { return !f.pager.plan().is_following(); });
  f.begin();
  for (std::uint32_t i = 0; i < PlanTrial::least_pause; ++i) f.step();
  CHECK(f.statistics().plan_refusals == 0);
  CHECK(f.pager.plan().is_following());
  CHECK(f.statistics().planned_steps >= PlanTrial::least_pause - 2);
  CHECK(f.wrong() == 0);
}
