// When the budget falls and rises. Time is passed in.
#include "daemon/pressure/pressure_policy.h"

#include <array>
#include <catch2/catch.hpp>

#include "tests/units.h"

using namespace terrace::daemon;
using terrace::tests::gib;

namespace {

constexpr std::uint64_t one_second = PressurePolicy::second;
constexpr std::uint64_t whole_budget = 16 * gib;
const MemoryState short_of_memory{2000, 0, gib / 2, 32 * gib}, at_ease{0, 0, 8 * gib, 32 * gib};

struct Policy {
  PressurePolicy policy;
  std::uint64_t now = one_second;
  // The budget after so many seconds of it.
  std::uint64_t after(std::uint64_t seconds, const MemoryState& state) {
    for (std::uint64_t i = 0; i < seconds; ++i) policy.observe({&state, 1}, whole_budget, now += one_second);
    return policy.of(whole_budget);
  }
};

}  // namespace

TEST_CASE_METHOD(Policy, "a cgroup that is short lowers the budget of a machine that is not") {
  const std::array both{at_ease, MemoryState{1500, 0, gib / 4, 8 * gib}};
  for (int i = 0; i < 4; ++i) policy.observe(both, whole_budget, now += one_second);
  CHECK(policy.of(whole_budget) == 15 * gib);
  CHECK(after(31, at_ease) == 16 * gib);
  after(4, short_of_memory);
  const std::array mixed{at_ease, MemoryState{0, 0, gib / 4, 8 * gib}};  // it has nothing to give yet
  for (int i = 0; i < 100; ++i) policy.observe(mixed, whole_budget, now += one_second);
  CHECK(policy.of(whole_budget) == 15 * gib);
}

TEST_CASE_METHOD(Policy, "a shortage that lasts lowers the budget step by step, down to half") {
  CHECK(after(3, short_of_memory) == 16 * gib);  // the first says when it began
  CHECK(after(1, short_of_memory) == 15 * gib);
  CHECK(after(4, short_of_memory) == 15 * gib);
  CHECK(after(1, short_of_memory) == 14 * gib);
  CHECK(after(1000, short_of_memory) == 8 * gib);
}

TEST_CASE_METHOD(Policy, "full pressure counts as well as some") {
  CHECK(after(4, {900, 500, gib / 2, 32 * gib}) == 15 * gib);
}

TEST_CASE_METHOD(Policy, "a short burst changes nothing") {
  for (int i = 0; i < 100; ++i) {
    after(3, short_of_memory);
    after(1, {500, 0, gib, 32 * gib});
  }
  CHECK(policy.of(whole_budget) == whole_budget);
}

TEST_CASE_METHOD(Policy,
                 "waiting on a machine that has plenty is no shortage, nor is little without waiting") {
  CHECK(after(100, {9000, 9000, 8 * gib, 32 * gib}) == whole_budget);  // a job under a limit of its own
  CHECK(after(100, {0, 0, gib / 4, 32 * gib}) == whole_budget);
}

TEST_CASE_METHOD(Policy, "the budget rises again, later and slower") {
  after(1000, short_of_memory);
  CHECK(after(30, at_ease) == 8 * gib);
  CHECK(after(1, at_ease) == 9 * gib);
  CHECK(after(9, at_ease) == 9 * gib);
  CHECK(after(1, at_ease) == 10 * gib);
  CHECK(after(1000, at_ease) == whole_budget);
}

TEST_CASE_METHOD(Policy, "between shortage and ease it stays, for as long as that lasts") {
  after(4, short_of_memory);
  CHECK(after(1000, {500, 0, 8 * gib, 32 * gib}) == 15 * gib);  // some still wait
  CHECK(after(1000, {0, 0, 2 * gib + gib / 2, 32 * gib}) ==
        15 * gib);  // a step more would not leave a sixteenth
}

TEST_CASE_METHOD(Policy, "ease that is interrupted begins anew") {
  after(4, short_of_memory);
  for (int i = 0; i < 10; ++i) {
    after(25, at_ease);
    after(1, {500, 0, 8 * gib, 32 * gib});
  }
  CHECK(policy.of(whole_budget) == 15 * gib);
}
