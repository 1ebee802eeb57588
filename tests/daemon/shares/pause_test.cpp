// A job that is paused: its promise is there for others, and comes back.
#include <catch2/catch.hpp>
#include <cerrno>

#include "daemon/shares/arbiter.h"
#include "tests/units.h"

using namespace terrace::daemon;
using terrace::tests::gib;
namespace {

const JobKey one{1000, "one"}, other{1000, "other"};

struct PauseFixture {
  Arbiter arbiter{8 * gib};
  PauseFixture() {
    REQUIRE_FALSE(arbiter.admit(1, one, 6 * gib));
    arbiter.rebalance();
  }
  void hold(SessionId session, std::uint64_t bytes) { arbiter.observe(session, {bytes, bytes}); }
  void pass_rounds(unsigned count) {
    for (unsigned i = 0; i < count; ++i) arbiter.end_round();
  }
};

}  // namespace

TEST_CASE_METHOD(PauseFixture, "WhatAPausedJobWasPromisedIsThereForOthers") {
  CHECK(arbiter.admit(2, other, 6 * gib)->error == ENOSPC);
  REQUIRE_FALSE(arbiter.pause(one, false));
  CHECK(arbiter.is_paused(one));
  CHECK(arbiter.job_budget_bytes(one) == Arbiter::minimum_bytes);
  CHECK_FALSE(arbiter.admit(2, other, 6 * gib));
}

TEST_CASE_METHOD(PauseFixture, "EveryProcessOfAPausedJobKeepsTheMinimum") {
  REQUIRE_FALSE(arbiter.admit(2, one, 6 * gib));
  REQUIRE_FALSE(arbiter.admit(3, one, 0));
  arbiter.rebalance();
  hold(1, 3 * gib);
  hold(2, gib);
  hold(3, 0);
  REQUIRE_FALSE(arbiter.pause(one, false));
  arbiter.rebalance();
  for (const SessionId session : {1, 2, 3}) CHECK(arbiter.granted_bytes(session) == Arbiter::minimum_bytes);
}

TEST_CASE_METHOD(PauseFixture, "AResumedJobHasItsPromiseBackOrStaysPaused") {
  REQUIRE_FALSE(arbiter.pause(one, true));
  REQUIRE_FALSE(arbiter.admit(2, other, 6 * gib));
  const auto refusal = arbiter.resume(one, Arbiter::By::owner);
  REQUIRE(refusal);
  CHECK(refusal->error == ENOSPC);
  CHECK(refusal->available_bytes == 2 * gib);
  CHECK(arbiter.is_paused(one));
  arbiter.leave(2);
  CHECK_FALSE(arbiter.resume(one, Arbiter::By::owner));
  CHECK_FALSE(arbiter.is_paused(one));
  CHECK(arbiter.job_budget_bytes(one) == 6 * gib);
  CHECK_FALSE(arbiter.resume(one, Arbiter::By::owner));  // once more does nothing
  CHECK(arbiter.job_budget_bytes(one) == 6 * gib);
}

TEST_CASE_METHOD(PauseFixture, "AJobWithoutAPromiseSharesAgainAfterAPause") {
  REQUIRE_FALSE(arbiter.admit(2, other, 0));
  const std::uint64_t before = arbiter.job_budget_bytes(other);
  REQUIRE_FALSE(arbiter.pause(other, true));
  CHECK(arbiter.job_budget_bytes(other) == Arbiter::minimum_bytes);
  REQUIRE_FALSE(arbiter.resume(other, Arbiter::By::owner));
  CHECK(arbiter.job_budget_bytes(other) == before);
}

TEST_CASE_METHOD(PauseFixture, "ABudgetThatWasSetComesBackAsSet") {
  REQUIRE_FALSE(arbiter.set_job_budget(one, 3 * gib, Arbiter::By::owner));
  REQUIRE_FALSE(arbiter.pause(one, true));
  CHECK(arbiter.set_job_budget(one, gib, Arbiter::By::administrator)->error == EBUSY);
  REQUIRE_FALSE(arbiter.resume(one, Arbiter::By::owner));
  CHECK(arbiter.job_budget_bytes(one) == 3 * gib);
}

TEST_CASE_METHOD(PauseFixture, "WhoDiesWhilePausingLeavesTheJobItsBudget") {
  REQUIRE_FALSE(arbiter.pause(one, false));
  pass_rounds(Arbiter::pausing_rounds - 1);
  CHECK(arbiter.is_paused(one));
  REQUIRE_FALSE(arbiter.pause(one, false));  // asked for again: not dead
  pass_rounds(Arbiter::pausing_rounds - 1);
  CHECK(arbiter.is_paused(one));
  pass_rounds(1);
  CHECK_FALSE(arbiter.is_paused(one));
  CHECK(arbiter.job_budget_bytes(one) == 6 * gib);
}

TEST_CASE_METHOD(PauseFixture, "AStoppedJobStaysPausedForEver") {
  REQUIRE_FALSE(arbiter.pause(one, false));
  REQUIRE_FALSE(arbiter.pause(one, true));
  pass_rounds(1000 * Arbiter::pausing_rounds);
  CHECK(arbiter.is_paused(one));
}

TEST_CASE_METHOD(PauseFixture, "APauseThatRanOutGivesWhatIsLeft") {
  REQUIRE_FALSE(arbiter.pause(one, false));
  REQUIRE_FALSE(arbiter.admit(2, other, 6 * gib));
  pass_rounds(Arbiter::pausing_rounds);
  CHECK_FALSE(arbiter.is_paused(one));
  CHECK(arbiter.job_budget_bytes(one) == 2 * gib);
}

TEST_CASE_METHOD(PauseFixture, "AJobThatEndsPausedLeavesNothingBehind") {
  REQUIRE_FALSE(arbiter.pause(one, true));
  arbiter.leave(1);
  CHECK_FALSE(arbiter.is_paused(one));
  CHECK(arbiter.pause(one, true)->error == ENOENT);
  REQUIRE_FALSE(arbiter.admit(2, one, 8 * gib));
  CHECK(arbiter.job_budget_bytes(one) == 8 * gib);
}
