// Who may have how much of the pool: what is guaranteed to somebody is promised to nobody else, whoever asks
// first and in whatever order jobs come and go.
#include <catch2/catch.hpp>
#include <cerrno>
#include <map>
#include <random>

#include "daemon/pools/pools.h"
#include "liballoc/wire/protocol.h"
#include "tests/units.h"

using namespace terrace;
using namespace terrace::daemon;
using Catch::Matchers::Contains;

namespace {

using terrace::tests::gib;
using terrace::tests::mib;

constexpr std::uint32_t root_user = 0, lena = 1000, mark = 1001, nora = 1002;

struct Shared {
  Pools pools{"/var/tmp", 10 * gib, false};
  UserShares users;
  void say() { pools.set_users(users); }
};

}  // namespace

TEST_CASE_METHOD(Shared, "PoolSpaceThatAUserIsGuaranteedIsPromisedToNobodyElse") {
  users.set(lena, {.guarantee_bytes = 4 * gib});
  say();
  const auto refusal = pools.promise(1, {nora, "a"}, 7 * gib);
  REQUIRE(refusal);
  CHECK(refusal->error == ENOSPC);
  CHECK(refusal->available_bytes == 6 * gib);
  REQUIRE_FALSE(pools.promise(1, {nora, "a"}, 6 * gib));
  CHECK(pools.promise(2, {root_user, "a"}, 2 * gib));  // it binds the administrator, too
  REQUIRE_FALSE(pools.promise(3, {lena, "a"}, 4 * gib));
}

TEST_CASE_METHOD(Shared, "WhateverThereIsLeavesWhatOthersAreGuaranteed") {
  users.set(lena, {.guarantee_bytes = 4 * gib});
  say();
  REQUIRE_FALSE(pools.promise(1, {nora, "a"}, wire::any_bytes));
  CHECK(pools.promised_bytes(JobKey{nora, "a"}) == 3 * gib);  // half of what he could have
  REQUIRE_FALSE(pools.promise(2, {lena, "a"}, wire::any_bytes));
  CHECK(pools.promised_bytes(JobKey{lena, "a"}) == 7 * gib / 2);
}

TEST_CASE_METHOD(Shared, "NoUserHasMorePoolSpaceThanHisLimit") {
  users.set_cap(5 * gib);
  users.set(lena, {.limit_bytes = 3 * gib});
  say();
  REQUIRE_FALSE(pools.promise(1, {lena, "a"}, 2 * gib));
  const auto refusal = pools.promise(2, {lena, "b"}, 2 * gib);
  REQUIRE(refusal);
  CHECK(refusal->available_bytes == gib);
  CHECK_THAT(refusal->reason, Contains("one user's 3.0 GiB") && Contains("pool_limit in [[share]]"));
  REQUIRE_FALSE(pools.promise(3, {nora, "a"}, 5 * gib));
  CHECK_THAT(pools.promise(4, {nora, "b"}, gib)->reason, Contains("[pool] per_user"));
}

TEST_CASE_METHOD(Shared, "NoGroupHasMorePoolSpaceThanItsLimit") {
  users.add_group({.name = "lab", .limit_bytes = 3 * gib}, {lena, mark});
  say();
  REQUIRE_FALSE(pools.promise(1, {lena, "a"}, 2 * gib));
  const auto refusal = pools.promise(2, {mark, "a"}, 2 * gib);
  REQUIRE(refusal);
  CHECK(refusal->available_bytes == gib);
  CHECK_THAT(refusal->reason, Contains("the group \"lab\"") && Contains("pool_limit in [[group]]"));
  CHECK_FALSE(pools.promise(3, {nora, "a"}, 8 * gib));
}

TEST_CASE_METHOD(Shared, "JobsByNameHaveTheirOwnGuaranteesAndLimits") {
  JobShares jobs;
  jobs.add({lena}, "nightly", {.guarantee_bytes = 4 * gib});
  jobs.add({lena}, "small*", {.limit_bytes = gib});
  users.set_jobs(std::move(jobs));
  say();
  CHECK(pools.promise(1, {lena, "other"}, 7 * gib)->available_bytes == 6 * gib);  // of his own user, too
  CHECK_THAT(pools.promise(1, {lena, "small1"}, 2 * gib)->reason, Contains("pool_limit in [[job]]"));
  REQUIRE_FALSE(pools.promise(1, {lena, "small1"}, wire::any_bytes));
  CHECK(pools.promised_bytes(JobKey{lena, "small1"}) == gib);  // nobody else may have that
  REQUIRE_FALSE(pools.promise(2, {lena, "nightly"}, 4 * gib));
}

TEST_CASE_METHOD(Shared, "OfAUsersLimitWhatHisJobsAreGuaranteedByNameStaysForThem") {
  JobShares jobs;
  jobs.add({lena}, "nightly", {.guarantee_bytes = 4 * gib});
  users.set_jobs(std::move(jobs));
  users.set(lena, {.limit_bytes = 5 * gib});
  say();
  const auto refusal = pools.promise(1, {lena, "other"}, 2 * gib);
  REQUIRE(refusal);
  CHECK(refusal->available_bytes == gib);
  CHECK_THAT(refusal->reason, Contains("4.0 GiB are guaranteed to other jobs"));
}

TEST_CASE_METHOD(Shared, "RanksOfOneJobShareItsPoolSpaceAlsoUnderALoweredLimit") {
  REQUIRE_FALSE(pools.promise(1, {lena, "train"}, 6 * gib));
  users.set(lena, {.limit_bytes = 4 * gib});
  say();  // as by a reload: what is promised stays
  REQUIRE_FALSE(pools.promise(2, {lena, "train"}, 6 * gib));
  CHECK(pools.promised_bytes() == 6 * gib);
  CHECK(pools.promise(3, {lena, "next"}, gib));
}

TEST_CASE_METHOD(Shared, "APoolThatAJobBringsTakesNothingThatIsGuaranteed") {
  users.set(lena, {.guarantee_bytes = 4 * gib});
  say();
  CHECK_FALSE(pools.adopt(1, {nora, "a"}, 9 * gib, 0, {}));
  CHECK(pools.promised_bytes(JobKey{nora, "a"}) == 6 * gib);
}

// ---- histories --------------------------------------------------------------------------------------------

namespace {

// Users 1000 to 1004: 1001 is guaranteed something, 1002 and 1003 are a group, and two have rules by name.
struct PoolHistory : Shared {
  std::mt19937_64 random;
  std::map<SessionId, JobKey> there;
  SessionId next = 1;
  static constexpr std::uint64_t quota = 10 * gib, cap = 6 * gib;

  explicit PoolHistory(std::uint64_t seed) : random(seed) {
    users.set_cap(cap);
    users.set(1001, {.guarantee_bytes = 2 * gib, .limit_bytes = 4 * gib});
    users.add_group({.name = "lab", .guarantee_bytes = 3 * gib, .limit_bytes = 5 * gib}, {1002, 1003});
    JobShares jobs;
    jobs.add({1004}, "0", {.guarantee_bytes = gib});
    jobs.add({1003}, "*", {.limit_bytes = gib});
    users.set_jobs(std::move(jobs));
    say();
  }
  std::uint64_t below(std::uint64_t bound) { return random() % bound; }
  void step() {
    if (below(3) == 0 && !there.empty()) {
      const auto gone = std::next(there.begin(), static_cast<long>(below(there.size())));
      pools.leave(gone->first);
      there.erase(gone);
      return;
    }
    const JobKey job{1000 + static_cast<std::uint32_t>(below(5)), std::to_string(below(3))};
    const SessionId id = next++;
    const std::uint64_t wanted = below(3) == 0 ? wire::any_bytes : 2 * mib + below(5 * gib);
    if (below(8) == 0)
      pools.adopt(id, job, below(20 * gib), 0, {});
    else if (pools.promise(id, job, wanted))
      return;
    there[id] = job;
  }
  std::uint64_t of_users(std::uint32_t first, std::uint32_t last) const {
    std::map<JobKey, std::uint64_t> jobs;
    for (const auto& [id, job] : there)
      if (job.uid >= first && job.uid <= last) jobs[job] = pools.promised_bytes(job);
    std::uint64_t sum = 0;
    for (const auto& [job, bytes] : jobs) sum += bytes;
    return sum;
  }
  // What is missing of a guarantee is promised to whoever it is for, at once.
  void check_has(const JobKey& job, std::uint64_t bytes) {
    if (bytes < Pools::least_bytes) return;
    REQUIRE_FALSE(pools.promise(1'000'000, job, bytes));
    pools.leave(1'000'000);
  }
  void check() {
    REQUIRE(of_users(1000, 1004) <= quota);
    for (std::uint32_t uid = 1000; uid <= 1004; ++uid) REQUIRE(of_users(uid, uid) <= cap);
    REQUIRE(of_users(1001, 1001) <= 4 * gib);
    REQUIRE(of_users(1002, 1003) <= 5 * gib);
    for (const auto& [id, job] : there)
      if (job.uid == 1003) REQUIRE(pools.promised_bytes(job) <= gib);
    check_has({1001, "new"}, 2 * gib - std::min(of_users(1001, 1001), 2 * gib));
    check_has({1002, "new"}, 3 * gib - std::min(of_users(1002, 1003), 3 * gib));
    if (pools.promised_bytes(JobKey{1004, "0"}) < gib) check_has({1004, "0"}, gib);
  }
};

}  // namespace

TEST_CASE("NoHistoryOfPoolsTakesWhatIsGuaranteedOrPassesALimit") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    PoolHistory history(seed);
    for (int i = 0; i < 1000; ++i) {
      history.step();
      history.check();
    }
  }
}
