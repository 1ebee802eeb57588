// Users who do not trust each other: what the arbiter keeps for one, whatever another does.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <map>
#include <random>

#include "daemon/shares/arbiter.h"
#include "tests/daemon/shares/obey.h"
#include "tests/units.h"

using namespace terrace::daemon;
using Catch::Matchers::Contains;
using terrace::daemon::test::obey;

namespace {

using terrace::tests::gib;
using terrace::tests::mib;
using By = Arbiter::By;

constexpr std::uint32_t superuser = 0, honest = 1000, greedy = 2000;

JobKey job(std::uint32_t uid, std::uint64_t number) { return {uid, "job" + std::to_string(number)}; }

UserShares capped(std::uint64_t bytes) {
  UserShares users;
  users.set_cap(bytes);
  return users;
}

// A process has all of the machine, and one of another user has just joined.
struct Contended {
  Arbiter arbiter{4 * gib};
  Contended() {
    arbiter.admit(1, job(greedy, 1), 0);
    arbiter.rebalance();
    arbiter.observe(1, {4 * gib, 8 * gib});
    arbiter.admit(2, job(honest, 1), 0);
  }
};

}  // namespace

TEST_CASE("ManyJobsOfOneUserLeaveAnotherHisHalf") {
  Arbiter arbiter(8 * gib);
  arbiter.set_users(capped(4 * gib));
  REQUIRE_FALSE(arbiter.admit(1, job(honest, 1), 0));
  for (SessionId id = 2; id <= 251; ++id) REQUIRE_FALSE(arbiter.admit(id, job(greedy, id), 0));
  obey(arbiter, 251);
  CHECK(arbiter.granted_bytes(1) >= 4 * gib - 1);
  CHECK(arbiter.granted_bytes(2) == 4 * gib / 250);
}

TEST_CASE("PromisesOfOneUserAreCapped") {
  Arbiter arbiter(8 * gib);
  arbiter.set_users(capped(4 * gib));
  REQUIRE_FALSE(arbiter.admit(1, job(greedy, 1), 3 * gib));
  const auto refusal = arbiter.admit(2, job(greedy, 2), 2 * gib);
  REQUIRE(refusal);
  CHECK(refusal->error == ENOSPC);
  CHECK(refusal->available_bytes == gib);
  CHECK_THAT(refusal->reason, Contains("per_user") && Contains("1.0 GiB"));
  REQUIRE_FALSE(arbiter.admit(2, job(greedy, 2), gib));
  CHECK(arbiter.admit(3, job(greedy, 3), 0));  // not even the minimum is left to him
  CHECK_FALSE(arbiter.readmit(4, job(greedy, 4), 4 * gib, 4 * gib));
  CHECK(arbiter.promised_bytes() == 4 * gib);
  CHECK_FALSE(arbiter.admit(5, job(honest, 1), 3 * gib));
  CHECK_FALSE(arbiter.admit(6, job(superuser, 1), 1 * gib - 4 * mib));
}

TEST_CASE("an owner raises his job within his cap, an administrator beyond it") {
  Arbiter arbiter(8 * gib);
  arbiter.set_users(capped(4 * gib));
  REQUIRE_FALSE(arbiter.admit(1, job(greedy, 1), gib));
  CHECK(arbiter.set_job_budget(job(greedy, 1), 5 * gib, By::owner)->available_bytes == 4 * gib);
  CHECK(arbiter.job_budget_bytes(job(greedy, 1)) == gib);
  CHECK_FALSE(arbiter.set_job_budget(job(greedy, 1), 4 * gib, By::owner));
  CHECK_FALSE(arbiter.set_job_budget(job(greedy, 1), 8 * gib, By::administrator));
}

TEST_CASE("what is lent tops up the user who has least") {
  Arbiter arbiter(8 * gib);
  REQUIRE_FALSE(arbiter.admit(1, job(greedy, 1), 4 * gib));
  REQUIRE_FALSE(arbiter.admit(2, job(greedy, 2), 0));
  REQUIRE_FALSE(arbiter.admit(3, job(honest, 1), 0));
  obey(arbiter, 3);
  CHECK(arbiter.granted_bytes(2) == 4 * mib);
  CHECK(arbiter.granted_bytes(3) == 4 * gib - 4 * mib);
}

TEST_CASE_METHOD(Contended, "AGrantRisesOnlyIntoRoomThatIsFreeOnTheMachine") {
  arbiter.rebalance();
  CHECK(arbiter.granted_bytes(1) == 2 * gib);
  CHECK(arbiter.granted_bytes(2) == Arbiter::minimum_bytes);  // process 1 still holds all of it
  arbiter.observe(1, {3 * gib, 8 * gib});
  arbiter.rebalance();
  CHECK(arbiter.granted_bytes(2) == gib);
  arbiter.observe(1, {4 * gib, 8 * gib});  // it cannot have got it back
  arbiter.rebalance();
  CHECK(arbiter.granted_bytes(2) == gib);
  arbiter.observe(1, {2 * gib, 8 * gib});
  arbiter.rebalance();
  CHECK(arbiter.granted_bytes(2) == 2 * gib);
}

TEST_CASE_METHOD(Contended, "AGiverThatNeverGivesIsNamedAndStarvesNobody") {
  std::vector<SessionId> late;
  for (unsigned round = 0; round <= Arbiter::patience_rounds; ++round) {
    CHECK(late.empty());
    arbiter.rebalance();
    CHECK(arbiter.granted_bytes(2) == Arbiter::minimum_bytes);
    arbiter.observe(1, {4 * gib, 8 * gib});
    late = arbiter.end_round();
  }
  CHECK(late == std::vector<SessionId>{1});
  arbiter.rebalance();
  CHECK(arbiter.granted_bytes(2) == 2 * gib);
  CHECK(arbiter.end_round().empty());  // it is named once
}

// ---- weights, guarantees and limits
// -------------------------------------------------------------------------

TEST_CASE("UsersAreLentByTheirWeights") {
  Arbiter arbiter(8 * gib);
  UserShares users;
  users.set(honest, {.weight = 3});
  arbiter.set_users(users);
  REQUIRE_FALSE(arbiter.admit(1, job(honest, 1), 0));
  REQUIRE_FALSE(arbiter.admit(2, job(greedy, 1), 0));
  obey(arbiter, 2);
  CHECK(arbiter.granted_bytes(1) == 6 * gib);
  CHECK(arbiter.granted_bytes(2) == 2 * gib);
}

TEST_CASE("JobsOfOneUserAreLentByTheirWeights") {
  Arbiter arbiter(8 * gib);
  REQUIRE_FALSE(arbiter.admit(1, job(honest, 1), 0));
  REQUIRE_FALSE(arbiter.admit(2, job(honest, 2), 0));
  REQUIRE_FALSE(arbiter.set_job_weight(job(honest, 1), 3));
  CHECK(arbiter.job_weight(job(honest, 1)) == 3);
  obey(arbiter, 2);
  CHECK(arbiter.granted_bytes(1) == 6 * gib);
  CHECK(arbiter.granted_bytes(2) == 2 * gib);
  CHECK(arbiter.set_job_weight(job(honest, 1), 0)->error == EINVAL);
  CHECK(arbiter.set_job_weight(job(honest, 1), most_weight + 1)->error == EINVAL);
  CHECK(arbiter.set_job_weight(job(greedy, 1), 3)->error == ENOENT);
}

TEST_CASE("AJobsWeightTakesNothingFromOtherUsers") {
  Arbiter arbiter(8 * gib);
  REQUIRE_FALSE(arbiter.admit(1, job(honest, 1), 0));
  REQUIRE_FALSE(arbiter.admit(2, job(greedy, 1), 0));
  REQUIRE_FALSE(arbiter.set_job_weight(job(greedy, 1), most_weight));
  obey(arbiter, 2);
  CHECK(arbiter.granted_bytes(1) == 4 * gib);
}

TEST_CASE("WhatIsGuaranteedIsLentAndNotPromisedToOthers") {
  Arbiter arbiter(8 * gib);
  UserShares users;
  users.set(honest, {.guarantee_bytes = 6 * gib});
  arbiter.set_users(users);
  const auto refusal = arbiter.admit(1, job(greedy, 1), 3 * gib);
  REQUIRE(refusal);
  CHECK(refusal->available_bytes == 2 * gib);
  REQUIRE_FALSE(arbiter.admit(1, job(greedy, 1), 0));
  obey(arbiter, 1);
  CHECK(arbiter.granted_bytes(1) == 8 * gib);  // nobody else is there
  REQUIRE_FALSE(arbiter.admit(2, job(honest, 1), 0));
  obey(arbiter, 2);
  CHECK(arbiter.granted_bytes(1) == 2 * gib);
  CHECK(arbiter.granted_bytes(2) == 6 * gib);
  REQUIRE_FALSE(arbiter.admit(3, job(honest, 2), 5 * gib));  // past no cap
}

TEST_CASE("AGuaranteeIsPastTheCapForAllAndALimitBelow") {
  Arbiter arbiter(8 * gib);
  UserShares users = capped(2 * gib);
  users.set(honest, {.guarantee_bytes = 5 * gib});
  users.set(greedy, {.limit_bytes = gib});
  arbiter.set_users(users);
  CHECK_FALSE(arbiter.admit(1, job(honest, 1), 5 * gib));
  const auto refusal = arbiter.admit(2, job(greedy, 1), 2 * gib);
  REQUIRE(refusal);
  CHECK_THAT(refusal->reason, Contains("limit in [[share]]") && Contains("1.0 GiB"));
  REQUIRE_FALSE(arbiter.admit(2, job(greedy, 1), 0));
  obey(arbiter, 2);
  CHECK(arbiter.granted_bytes(2) == gib);  // of the 3 that nobody has
}

TEST_CASE("TheAdministratorHasNoLimitButHonoursGuarantees") {
  Arbiter arbiter(8 * gib);
  UserShares users = capped(gib);
  users.set(superuser, {.limit_bytes = gib});
  users.set(honest, {.guarantee_bytes = 2 * gib});
  arbiter.set_users(users);
  CHECK(arbiter.admit(1, job(superuser, 1), 7 * gib));
  CHECK_FALSE(arbiter.admit(1, job(superuser, 1), 6 * gib));
}

// What joins, ends, claims to be back, settings and demands at random lead to; processes give late or in
// part.
struct History {
  static constexpr std::uint64_t machine = 32 * gib, cap = 12 * gib, users = 2, guarantee = 4 * gib,
                                 job_guarantee = 6 * gib, job_limit = 3 * gib;
  static constexpr std::size_t most_processes = 40;
  std::mt19937_64 random{7};
  Arbiter arbiter{machine};
  std::map<SessionId, JobKey> sessions;
  std::map<SessionId, std::uint64_t> resident;
  SessionId next = 1;
  unsigned guaranteed_rounds = 0;

  // One of the users has a guarantee and is lent more. A job of his has one, and one of each user a limit.
  History() {
    UserShares said = capped(cap);
    said.set(1000, {.weight = 3, .guarantee_bytes = guarantee});
    JobShares jobs;
    jobs.add({1000}, "job0", {.guarantee_bytes = job_guarantee});
    jobs.add({1000, 1001}, "*1", {.limit_bytes = job_limit});
    said.set_jobs(std::move(jobs));
    arbiter.set_users(said);
  }

  std::uint64_t machine_use() {
    std::uint64_t sum = 0;
    for (const auto& [id, key] : sessions) sum += std::max(arbiter.granted_bytes(id), resident[id]);
    return sum;
  }
  // How much of the machine may be used beyond it, or beyond what was: a start, or what somebody says he has.
  std::uint64_t step() {
    const auto what = random() % 13;
    const JobKey key = job(1000 + static_cast<std::uint32_t>(random() % users), random() % 4);
    const std::uint64_t wanted = random() % 3 == 0 ? 0 : random() % (machine / (1 + random() % 4));
    if (what < 3 && sessions.size() < most_processes) {
      if (arbiter.admit(next, key, wanted)) return 0;
      sessions[next++] = key;
      return Arbiter::minimum_bytes;
    }
    if (what == 12 && sessions.size() < most_processes) {
      arbiter.readmit(next, key, wanted, random() % machine);
      sessions[next] = key;
      return arbiter.granted_bytes(next++);
    }
    if (what < 6 && !sessions.empty()) {
      const auto victim = std::next(sessions.begin(), static_cast<long>(random() % sessions.size()));
      arbiter.leave(victim->first);
      resident.erase(victim->first);
      sessions.erase(victim);
    } else if (what == 6) {
      arbiter.set_job_budget(key, random() % machine, By::owner);
    } else if (what == 7) {
      arbiter.set_job_weight(key, random() % 9);
    }
    return 0;
  }
  void take_and_give() {
    for (const auto& [id, of] : sessions) {
      const std::uint64_t granted = arbiter.granted_bytes(id);
      if (resident[id] < granted) resident[id] += random() % (granted - resident[id] + 1);
      if (resident[id] > granted && random() % 3 == 0)
        resident[id] -= random() % (resident[id] - granted + 1);
      arbiter.observe(id, {resident[id], random() % machine});
    }
    arbiter.end_round();
  }
  // A user with a guarantee who has a job that may borrow without a limit of its own has it, whatever others
  // were promised.
  void check_guarantee() {
    std::map<JobKey, std::uint64_t> budgets;
    bool borrows = false;
    for (const auto& [id, of] : sessions) {
      if (of.uid != 1000) continue;
      budgets[of] = arbiter.job_budget_bytes(of);
      borrows = borrows || (arbiter.job_promised_bytes(of) == 0 && of.name != "job1");
    }
    std::uint64_t sum = 0;
    for (const auto& [of, bytes] : budgets) sum += bytes;
    if (borrows) REQUIRE(sum + budgets.size() >= guarantee);
  }
  // Whatever its user's other jobs and other users were promised.
  void check_named_jobs() {
    for (const auto& [id, of] : sessions) {
      const std::uint64_t due = arbiter.job_budget_bytes(of);
      if (of == job(1000, 0) && arbiter.job_promised_bytes(of) == 0) {
        REQUIRE(due >= job_guarantee);
        ++guaranteed_rounds;
      }
      if (of.name == "job1") REQUIRE(due <= job_limit);
    }
  }
  // No job's processes are granted more than its budget, beyond the start of those that just joined.
  void check_jobs() {
    std::map<JobKey, std::vector<SessionId>> jobs;
    for (const auto& [id, of] : sessions) jobs[of].push_back(id);
    std::uint64_t all = 0;
    for (const auto& [of, members] : jobs) {
      std::uint64_t granted = 0;
      for (const SessionId id : members) {
        REQUIRE(arbiter.granted_bytes(id) >= Arbiter::minimum_bytes / most_processes);
        granted += arbiter.granted_bytes(id);
      }
      REQUIRE(granted <= arbiter.job_budget_bytes(of) + members.size() * Arbiter::starting_bytes);
      all += arbiter.job_budget_bytes(of);
    }
    REQUIRE(all <= machine);
    REQUIRE(arbiter.promised_bytes() <= users * cap);
  }
};

TEST_CASE_METHOD(History, "no history hands memory out twice, past a user's cap, or past the machine") {
  for (int i = 0; i < 9000; ++i) {
    const std::uint64_t before = machine_use();
    const std::uint64_t beyond = step();
    arbiter.rebalance();
    REQUIRE(machine_use() <= std::max(before, machine) + beyond);
    check_jobs();
    check_guarantee();
    check_named_jobs();
    take_and_give();
  }
  CHECK(guaranteed_rounds > 100);
}
