// What is said of jobs by name: it moves memory between the jobs of one user, and takes none from others,
// whatever names these choose.
#include "daemon/shares/job_shares.h"

#include <catch2/catch.hpp>
#include <cerrno>

#include "daemon/shares/arbiter.h"
#include "tests/daemon/shares/obey.h"
#include "tests/units.h"

using namespace terrace::daemon;
using Catch::Matchers::Contains;
using terrace::daemon::test::obey;

namespace {

using terrace::tests::gib;
using By = Arbiter::By;

// A machine of 10 GiB.
struct NamedJobs {
  static constexpr std::uint32_t ada = 1000, bob = 1001, superuser = 0;
  const JobKey train{ada, "train"}, other{ada, "other"}, bobs{bob, "train"};
  Arbiter arbiter{10 * gib};
  UserShares users;
  JobShares jobs;

  void say(std::set<std::uint32_t> of, const std::string& pattern, const JobShare& share) {
    jobs.add(std::move(of), pattern, share);
    users.set_jobs(jobs);
    arbiter.set_users(users);
  }
};

}  // namespace

TEST_CASE("AStarStandsForAnyText") {
  const std::string many(63, 'a');
  for (const auto& [pattern, name] : {std::pair<std::string, std::string>{"train", "train"},
                                      {"*", "train"},
                                      {"*", ""},
                                      {"t*", "train"},
                                      {"t*", "t"},
                                      {"*n", "train"},
                                      {"t*n", "train"},
                                      {"*rai*", "train"},
                                      {"*a*b", "aabab"},
                                      {"t**n", "train"},
                                      {"*a*a*a*a*a*a*a*a", many},
                                      {"[t]", "[t]"}})
    CHECK(matches(pattern, name));
  for (const auto& [pattern, name] : {std::pair<std::string, std::string>{"train", "trains"},
                                      {"train", "trai"},
                                      {"", "train"},
                                      {"t*", "rain"},
                                      {"*n", "trains"},
                                      {"t*a", "train"},
                                      {"*a*a*a*a*a*a*a*a*b", many},
                                      {"[t]", "t"},
                                      {"?", "t"}})
    CHECK_FALSE(matches(pattern, name));
  CHECK(is_one_name("train"));
  CHECK_FALSE(is_one_name("tr*"));
}

TEST_CASE_METHOD(NamedJobs, "AJobHasTheFirstRuleThatHoldsForItAndItsUser") {
  jobs.add({ada}, "train-*", {.weight = 2});
  jobs.add({ada, bob}, "*", {.weight = 3, .limit_bytes = gib});
  CHECK(jobs.of({ada, "train-1"}) == JobShare{.weight = 2});
  CHECK(jobs.of({ada, "train"}).weight == 3);
  CHECK(jobs.of({bob, "train-1"}).weight == 3);
  CHECK(jobs.of({2000, "train-1"}) == JobShare{});
  CHECK(jobs.rule_of({ada, "train"}) == 1U);
  CHECK_FALSE(jobs.rule_of({2000, "train"}));
}

TEST_CASE_METHOD(NamedJobs, "OnlyOneJobOfOneUserIsGuaranteedSomething") {
  jobs.add({ada, bob}, "train", {.guarantee_bytes = gib});
  jobs.add({ada}, "t*", {.guarantee_bytes = gib});
  CHECK(jobs.users().empty());
  jobs.add({bob}, "nightly", {.guarantee_bytes = gib});
  jobs.add({ada}, "train", {.guarantee_bytes = gib});  // which the first rule holds for
  CHECK(jobs.users() == std::set<std::uint32_t>{bob});
  CHECK(jobs.guaranteed_bytes(bob) == gib);
  CHECK(jobs.missing_bytes(bob, {bob, "nightly"}, {}) == 0);
  CHECK(jobs.missing_bytes(bob, {bob, "train"}, {{{bob, "nightly"}, gib / 4}}) == gib / 4 * 3);
}

// ---- guarantees -------------------------------------------------------------------------------------------

TEST_CASE_METHOD(NamedJobs, "WhatAJobIsGuaranteedIsPromisedToNoOtherJobOfItsUserOrAnothers") {
  say({ada}, "train", {.guarantee_bytes = 4 * gib});
  CHECK(arbiter.admit(1, bobs, 7 * gib)->available_bytes == 6 * gib);
  CHECK(arbiter.admit(1, other, 7 * gib)->available_bytes == 6 * gib);
  CHECK(arbiter.admit(1, {superuser, "train"}, 7 * gib)->available_bytes == 6 * gib);
  REQUIRE_FALSE(arbiter.admit(1, bobs, 3 * gib));
  REQUIRE_FALSE(arbiter.admit(2, other, 3 * gib));
  CHECK(arbiter.set_job_budget(other, 4 * gib, By::administrator)->available_bytes == 3 * gib);
  REQUIRE_FALSE(arbiter.admit(3, train, 4 * gib));
}

TEST_CASE_METHOD(NamedJobs, "WhatAJobIsGuaranteedIsLentUntilItComes") {
  users.set(bob, {.weight = most_weight});
  say({ada}, "train", {.guarantee_bytes = 4 * gib});
  REQUIRE_FALSE(arbiter.admit(1, bobs, 0));
  REQUIRE_FALSE(arbiter.admit(2, other, 0));
  obey(arbiter, 2);
  CHECK(arbiter.granted_bytes(1) + arbiter.granted_bytes(2) >= 10 * gib - 2 * most_weight);
  REQUIRE_FALSE(arbiter.admit(3, train, 0));
  obey(arbiter, 3);
  CHECK(arbiter.granted_bytes(3) == 4 * gib);
  CHECK(arbiter.granted_bytes(2) == Arbiter::minimum_bytes);
}

TEST_CASE_METHOD(NamedJobs, "WhatAJobIsGuaranteedIsAPartOfWhatItsUserIs") {
  users.set(ada, {.guarantee_bytes = 6 * gib});
  say({ada}, "train", {.guarantee_bytes = 4 * gib});
  CHECK(arbiter.admit(1, bobs, 5 * gib)->available_bytes == 4 * gib);
  REQUIRE_FALSE(arbiter.admit(1, other, 3 * gib));  // past the 2 GiB that no job of ada's is guaranteed
  CHECK(arbiter.admit(2, bobs, 4 * gib)->available_bytes == 3 * gib);
}

TEST_CASE_METHOD(NamedJobs, "WhatAJobIsGuaranteedCountsInTheLimitsOfItsUserAndGroup") {
  users.set(ada, {.limit_bytes = 6 * gib});
  users.add_group({.name = "lab", .limit_bytes = 7 * gib}, {ada, bob});
  say({ada}, "train", {.guarantee_bytes = 4 * gib});
  const auto refusal = arbiter.admit(1, other, 3 * gib);
  REQUIRE(refusal);
  CHECK(refusal->available_bytes == 2 * gib);
  CHECK_THAT(refusal->reason,
             Contains("4.0 GiB are guaranteed to other jobs") && Contains("2.0 GiB are left"));
  CHECK(arbiter.admit(1, bobs, 4 * gib)->available_bytes == 3 * gib);
}

// ---- names that are made up -------------------------------------------------------------------------------

TEST_CASE_METHOD(NamedJobs, "AnotherUsersJobOfTheSameNameHasNothingOfIt") {
  say({ada}, "train", {.weight = 5, .guarantee_bytes = 4 * gib, .limit_bytes = 9 * gib});
  users.set_job_cap(3 * gib);
  arbiter.set_users(users);
  CHECK(arbiter.admit(1, bobs, 4 * gib)->available_bytes == 3 * gib);
  REQUIRE_FALSE(arbiter.admit(1, bobs, 0));
  CHECK(arbiter.job_weight(bobs) == 1);
  REQUIRE_FALSE(arbiter.admit(2, train, 7 * gib - Arbiter::minimum_bytes));
}

TEST_CASE_METHOD(NamedJobs, "ManyJobsOfAFavouredNameLeaveAnotherUserHisHalf") {
  say({ada}, "train*", {.weight = most_weight});
  REQUIRE_FALSE(arbiter.admit(1, bobs, 0));
  for (SessionId id = 2; id <= 251; ++id)
    REQUIRE_FALSE(arbiter.admit(id, {ada, "train" + std::to_string(id)}, 0));
  obey(arbiter, 251);
  CHECK(arbiter.granted_bytes(1) >= 5 * gib - 1);
}

// A job that is called something else has what all jobs have at most, and its user what he has.
TEST_CASE_METHOD(NamedJobs, "ANameWithoutARuleIsNoWayPastTheLimitOfTheUser") {
  users.set_job_cap(6 * gib);
  users.set(ada, {.limit_bytes = 5 * gib});
  say({ada}, "train", {.limit_bytes = gib});
  REQUIRE_FALSE(arbiter.admit(1, other, 0));
  REQUIRE_FALSE(arbiter.admit(2, {ada, "one more"}, 0));
  obey(arbiter, 2);
  CHECK(arbiter.granted_bytes(1) + arbiter.granted_bytes(2) <= 5 * gib);
}

// ---- limits and weights -----------------------------------------------------------------------------------

TEST_CASE_METHOD(NamedJobs, "ALimitHoldsForEachJobOfTheNameAndGoesBeforeTheOneForAll") {
  users.set_job_cap(2 * gib);
  say({ada}, "train*", {.limit_bytes = 3 * gib});
  const auto refusal = arbiter.admit(1, train, 4 * gib);
  REQUIRE(refusal);
  CHECK(refusal->available_bytes == 3 * gib);
  CHECK_THAT(refusal->reason, Contains("limit in [[job]]") && Contains("3.0 GiB"));
  CHECK_THAT(arbiter.admit(1, other, 3 * gib)->reason, Contains("per_job") && Contains("2.0 GiB"));
  REQUIRE_FALSE(arbiter.admit(1, train, 3 * gib));
  REQUIRE_FALSE(arbiter.admit(2, {ada, "train2"}, 0));
  obey(arbiter, 2);
  CHECK(arbiter.granted_bytes(2) == 3 * gib);
}

TEST_CASE_METHOD(NamedJobs, "OnlyAnAdministratorRaisesALimitThatANameHas") {
  say({ada}, "train", {.limit_bytes = 2 * gib});
  REQUIRE_FALSE(arbiter.admit(1, train, 0));
  REQUIRE_FALSE(arbiter.set_job_limit(train, 8 * gib, By::owner));
  CHECK(arbiter.job_budget_bytes(train) == 2 * gib);
  CHECK(arbiter.set_job_budget(train, 3 * gib, By::owner)->available_bytes == 2 * gib);
  REQUIRE_FALSE(arbiter.set_job_limit(train, gib, By::owner));
  CHECK(arbiter.job_budget_bytes(train) == gib);
  REQUIRE_FALSE(arbiter.set_job_limit(train, 8 * gib, By::administrator));
  CHECK(arbiter.job_budget_bytes(train) == 8 * gib);
}

TEST_CASE_METHOD(NamedJobs, "TheWeightOfANameHoldsUntilTheUserSaysAnother") {
  say({ada}, "train", {.weight = 4});
  REQUIRE_FALSE(arbiter.admit(1, train, 0));
  REQUIRE_FALSE(arbiter.admit(2, other, 0));
  obey(arbiter, 2);
  CHECK(arbiter.granted_bytes(1) == 8 * gib);
  CHECK(arbiter.job_weight(train) == 4);
  CHECK(arbiter.job_said_weight(train) == 0);
  REQUIRE_FALSE(arbiter.set_job_weight(train, 1));
  obey(arbiter, 2);
  CHECK(arbiter.granted_bytes(1) == 5 * gib);
  CHECK(arbiter.job_said_weight(train) == 1);
}

TEST_CASE_METHOD(NamedJobs, "RunningJobsFollowRulesThatAreReadAnew") {
  REQUIRE_FALSE(arbiter.admit(1, train, 0));
  REQUIRE_FALSE(arbiter.admit(2, other, 0));
  say({ada}, "train", {.weight = 4});
  obey(arbiter, 2);
  CHECK(arbiter.granted_bytes(1) == 8 * gib);
  jobs = {};
  say({ada}, "train", {.limit_bytes = 2 * gib});
  obey(arbiter, 2);
  CHECK(arbiter.granted_bytes(1) == 2 * gib);
  CHECK(arbiter.granted_bytes(2) == 8 * gib);
}
