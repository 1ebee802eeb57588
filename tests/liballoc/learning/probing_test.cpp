// When runs are taken out, how many, and when all are put back.
#include "tests/liballoc/learning/learning_program.h"

namespace terrace::liballoc {

using namespace test;

TEST_CASE("Nothing is probed while nobody plans and all is put back when nobody does any more") {
  Learning f;
  if (!f.ready()) return;
  Program program(f);
  program.sink.wants = false;
  program.run(8);
  CHECK(f.statistics().probes == 0);
  program.sink.wants = true;
  std::size_t probed = 0;
  program.in_the_middle = [&](const auto&) { probed += probed_runs(f); };
  program.run(8);
  CHECK(f.statistics().probes > 0);
  CHECK(probed > 0);
  program.in_the_middle = [&](const auto&) {
    REQUIRE(probed_runs(f) > 0);
    program.sink.wants = false;
    program.offer();
    CHECK(probed_runs(f) == 0);
    f.check();
  };
  program.step();
  program.in_the_middle = nullptr;
  const std::uint64_t probes = f.statistics().probes;
  for (int i = 0; i < 4; ++i) program.step();
  CHECK(f.statistics().probes == probes);
  CHECK(program.wrong == 0);
}

TEST_CASE("Probing takes the share of a period that it may") {
  Learning f;
  if (!f.ready()) return;
  f.pager.learner().let_probe(1, 1);
  Program program(f);
  program.pause_ns = 200'000;
  // From the first period on, where most is to be found out.
  const terrace_statistics before = f.statistics();
  program.run(16);
  const terrace_statistics after = f.statistics();
  REQUIRE(after.steps > before.steps);
  CHECK(after.probes > before.probes);
  // The last probe of a period is begun within the time, and those that are out come back after it.
  const std::uint64_t a_probe_ns = (after.probe_ns - before.probe_ns) / (after.probes - before.probes);
  CHECK(after.probe_ns - before.probe_ns <=
        (after.steps_ns - before.steps_ns) / 100 + 8 * a_probe_ns * (after.steps - before.steps));
  CHECK(program.wrong == 0);
}

TEST_CASE("Nothing is probed without a share of the period") {
  Learning f;
  if (!f.ready()) return;
  f.pager.learner().let_probe(0, 0);
  Program program(f);
  program.run(8);
  REQUIRE(f.statistics().steps > 0);
  CHECK(f.statistics().probes == 0);
  f.pager.learner().let_probe(100, 100);
  program.run(4);
  CHECK(f.statistics().probes > 0);
  CHECK(program.wrong == 0);
}

TEST_CASE("In its first periods a phase may take a larger share") {
  Learning f;
  if (!f.ready()) return;
  f.pager.learner().let_probe(100, 0);
  Program program(f);
  for (int i = 0; i < 20 && f.statistics().steps < 8; ++i) program.run(1);
  const std::uint64_t probes = f.statistics().probes;
  CHECK(probes > 0);
  program.run(4);
  CHECK(f.statistics().probes == probes);
  CHECK(program.wrong == 0);
}

TEST_CASE("A probe writes nothing and counts as no eviction") {
  Learning f(128);
  if (!f.ready()) return;
  Program program(f);
  program.learn(40);
  const terrace_statistics s = f.statistics();
  CHECK(s.probes > 0);
  CHECK(s.evictions == 0);
  CHECK(s.written_bytes == 0);
  CHECK(s.resident_bytes <= s.budget_bytes);
  CHECK(f.pager.extents().used_bytes() == 0);
}

TEST_CASE("What is probed gives way when memory is short") {
  Learning f;
  if (!f.ready()) return;
  Program program(f);
  bool was_short = false;
  program.in_the_middle = [&](const std::vector<std::byte*>&) {
    if (probed_runs(f) == 0 || was_short) return;
    was_short = true;
    // More than the budget, so that all has to leave in turn.
    const std::vector<std::byte*> more = allocate_blocks(f, 30);
    fill_blocks(f, more);
    CHECK(wrong_blocks(f, more) == 0);
    CHECK(f.pager.budget().backed_bytes() <= f.asked_budget());
    for (std::byte* const block : more) f.release(block);
  };
  program.run(10);
  CHECK(was_short);
  CHECK(program.wrong == 0);
  f.check();
}

TEST_CASE("Who leaves a phase has its runs back and its phase is known when it returns") {
  Learning f;
  if (!f.ready()) return;
  Program program(f);
  program.learn(40);
  REQUIRE(program.sink.taken == 1);
  const LearnedPeriod first = program.sink.last;
  std::uint64_t state = 1;
  std::vector<std::byte*> held;
  for (int i = 0; i < 150; ++i) {
    state = state * 6364136223846793005 + 1442695040888963407;
    held.push_back(f.allocate(256 * kib + (state >> 54) * kib));
    f.pump();
    if (held.size() < 20) continue;
    f.release(held.front());
    held.erase(held.begin());
  }
  CHECK(f.pager.learner().table() == nullptr);
  CHECK(probed_runs(f) == 0);
  for (std::byte* const block : held) f.release(block);
  f.check();
  f.pager.set_budget(60 * run_bytes);
  for (int i = 0; i < 6 && program.sink.taken < 2; ++i) {
    program.step();
    program.offer();
  }
  REQUIRE(program.sink.taken == 2);
  CHECK(program.sink.last.phase == first.phase);
  CHECK(program.sink.last.hash == first.hash);
}

TEST_CASE("A program without a period is not probed") {
  Learning f;
  if (!f.ready()) return;
  KeepingSink sink;
  std::uint64_t state = 1, now = 1;
  std::vector<std::byte*> held;
  for (int i = 0; i < 600; ++i) {
    state = state * 6364136223846793005 + 1442695040888963407;
    held.push_back(f.allocate(256 * kib + (state >> 54) * 4 * kib));
    f.pump();
    f.pager.learner().offer(sink, now += 2'000'000'000);
    if (held.size() < 10) continue;
    const std::size_t at = (state >> 33) % held.size();
    f.release(held[at]);
    held.erase(held.begin() + static_cast<long>(at));
  }
  CHECK(f.statistics().probes == 0);
  CHECK(sink.asked == 0);
}

}  // namespace terrace::liballoc
