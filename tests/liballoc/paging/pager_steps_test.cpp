// The pager finds the program's steps in the blocks that come and go, counts and times them.
#include "tests/liballoc/paging/pager_fixture.h"

using namespace terrace::liballoc;
using namespace terrace::liballoc::test;

namespace {

// Blocks of many sizes, freed in the reverse order, as activations are.
void one_step(PagerFixture& f, std::uint64_t pause_ns = 0) {
  constexpr std::size_t blocks = 60;
  std::vector<std::byte*> held;
  for (std::size_t i = 0; i < blocks; ++i) held.push_back(f.allocate(256 * kib * (1 + i * i % 11)));
  timespec pause{0, static_cast<long>(pause_ns)};
  if (pause_ns != 0) nanosleep(&pause, nullptr);
  for (; !held.empty(); held.pop_back()) f.release(held.back());
}

void some_chaos(PagerFixture& f, std::uint64_t* state) {
  std::vector<std::byte*> held;
  for (int i = 0; i < 100; ++i) {
    *state = *state * 6364136223846793005 + 1442695040888963407;
    held.push_back(f.allocate(256 * kib + (*state >> 54) * 4 * kib));
  }
  for (std::byte* block : held) f.release(block);
}

}  // namespace

TEST_CASE("StepsAreCountedOnceTheyAreKnown") {
  DramPager f;
  if (!f.ready()) return;
  for (int step = 0; step < 4; ++step) one_step(f);
  const std::uint64_t known = f.statistics().steps;
  for (int step = 0; step < 10; ++step) one_step(f);
  CHECK(f.statistics().steps == known + 10);
  CHECK(f.statistics().departures == 0);
}

TEST_CASE("AStepLastsAsLongAsItTakes") {
  DramPager f;
  if (!f.ready()) return;
  for (int step = 0; step < 5; ++step) one_step(f);
  const terrace_statistics before = f.statistics();
  for (int step = 0; step < 3; ++step) one_step(f, 20'000'000);
  one_step(f);  // what a step takes is known when the next one begins
  const terrace_statistics after = f.statistics();
  REQUIRE(after.steps == before.steps + 4);
  CHECK(after.steps_ns - before.steps_ns >= 3 * 20'000'000);
  CHECK(after.steps_stall_ns == 0);
}

TEST_CASE("AProgramThatNeverRepeatsHasNoSteps") {
  DramPager f;
  if (!f.ready()) return;
  std::uint64_t state = 1;
  for (int round = 0; round < 20; ++round) some_chaos(f, &state);
  CHECK(f.statistics().steps == 0);
  CHECK(f.statistics().departures == 0);
}

TEST_CASE("WhoLeavesItsStepsIsSeenToAndWhoComesBackToo") {
  DramPager f;
  if (!f.ready()) return;
  for (int step = 0; step < 6; ++step) one_step(f);
  const terrace_statistics before = f.statistics();
  REQUIRE(before.steps > 0);
  std::uint64_t state = 1;
  for (int round = 0; round < 3; ++round) some_chaos(f, &state);
  const terrace_statistics lost = f.statistics();
  CHECK(lost.departures == 1);
  CHECK(lost.steps <= before.steps + 1);
  for (int step = 0; step < 6; ++step) one_step(f);
  CHECK(f.statistics().steps >= lost.steps + 3);
}
