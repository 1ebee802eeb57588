// What the learner finds is what the program does.
#include <algorithm>
#include <array>

#include "tests/liballoc/learning/learning_program.h"

namespace terrace::liballoc {

using namespace test;

TEST_CASE("The uses that are found are the uses that are made") {
  Learning f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  Program program(f);
  const int steps = program.learn(40);
  INFO("steps: " << steps);
  REQUIRE(program.sink.taken == 1);
  CHECK(program.wrong == 0);
  REQUIRE(is_sound(program.sink));
  CHECK(program.sink.seals == (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL));
  const wire::PeriodHeader& h = program.sink.header();
  CHECK(h.events == events_of_step);
  CHECK(h.period_hash == program.sink.last.hash);
  CHECK(h.budget_bytes == f.pager.budget().bytes());
  const std::optional<std::uint32_t> turn = turn_of(program.sink);
  REQUIRE(turn.has_value());

  std::size_t persistent = 0;
  for (const wire::PeriodObject* o = program.sink.objects(); o != program.sink.objects() + h.objects; ++o) {
    const std::set<std::uint32_t> found = uses_of(program.sink, *o, *turn);
    if (o->birth == wire::persistent) {
      CHECK(o->bytes == 2 * run_bytes);
      CHECK(o->death == wire::never);
      const bool is_one = found == Program::uses_of_weight(0) || found == Program::uses_of_weight(1) ||
                          found == Program::uses_of_weight(2);
      CHECK(is_one);
      ++persistent;
      continue;
    }
    const std::uint32_t birth = (o->birth + events_of_step - *turn) % events_of_step;
    for (const Truth& t : Program::outputs()) {
      if (t.birth != birth) continue;
      std::set<std::uint32_t> expected = t.uses;
      expected.insert(birth);
      CHECK(found == expected);
    }
  }
  CHECK(persistent == weights);
  f.check();
}

TEST_CASE("A job that pages learns from its faults as well") {
  Learning f(16);
  if (!f.ready()) return;
  Program program(f);
  program.learn(40);
  REQUIRE(program.sink.taken > 0);
  for (int i = 0; i < 15; ++i) {
    program.step();
    program.offer();
  }
  CHECK(program.wrong == 0);
  const std::optional<std::uint32_t> turn = turn_of(program.sink);
  REQUIRE(turn.has_value());
  const wire::PeriodHeader& h = program.sink.header();
  std::size_t found = 0, made = 0;
  for (const wire::PeriodObject* o = program.sink.objects(); o != program.sink.objects() + h.objects; ++o) {
    for (const Truth& t : Program::outputs()) {
      if (t.birth != (o->birth + events_of_step - *turn) % events_of_step) continue;
      const std::set<std::uint32_t> seen = uses_of(program.sink, *o, *turn);
      made += t.uses.size();
      for (const std::uint32_t use : t.uses) found += seen.count(use);
    }
  }
  CHECK(made == layers);
  CHECK(found >= made - 1);
  CHECK(h.write_bytes_per_second > 0);
  f.check();
}

TEST_CASE("Of each block it is known in how many events it is touched next") {
  Learning f(128);
  if (!f.ready()) return;
  Program program(f);
  program.learn(40);
  REQUIRE(program.sink.taken == 1);
  PeriodLearner& learner = f.pager.learner();
  std::size_t known = 0;
  program.in_the_middle = [&](const std::vector<std::byte*>& outputs) {
    for (std::uint32_t i = 0; i < layers; ++i) {
      const std::uint32_t events = learner.events_to_use(f.id_of(outputs[i]));
      // The way back touches the last layer before its first event, each one before it three events later.
      const std::uint32_t expected = 3 * static_cast<std::uint32_t>(layers - 1 - i);
      CHECK(events == expected);
      ++known;
    }
    CHECK(learner.events_to_use(0) == NextUses::unknown);
  };
  program.step();
  CHECK(known == layers);
  CHECK(program.wrong == 0);
}

namespace {

// What the computing times of a learned step add up to, in percent of the step. 0: SKIP.
std::uint64_t percent_that_is_computing() {
  Learning f;
  if (!f.ready()) return 0;
  Program program(f);
  program.pause_ns = 500'000;
  program.learn(30);
  REQUIRE(program.sink.taken == 1);
  const wire::PeriodHeader& h = program.sink.header();
  std::uint64_t sum = 0;
  for (std::uint32_t k = 0; k < h.events; ++k) {
    CHECK(program.sink.events()[k].ns >= program.pause_ns * 9 / 10);
    sum += program.sink.events()[k].ns;
  }
  CHECK(h.waited_ns <= h.step_ns);
  return sum * 100 / h.step_ns;
}

}  // namespace

// Each is a median of its own, and so is the step: on a busy machine the medians of the events, each of which
// was disturbed in another step, can add up to more. Of three learners.
TEST_CASE("Computing times are those between two events without waits") {
  std::array<std::uint64_t, 3> percent{};
  for (std::uint64_t& each : percent) each = percent_that_is_computing();
  std::sort(percent.begin(), percent.end());
  CHECK(percent[1] < 110);
}

}  // namespace terrace::liballoc
