// Guarantees and limits of the bytes that are written in a day: of users, groups and jobs.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <random>

#include "daemon/writes/write_shares.h"
#include "tests/daemon/writes/leased_writers.h"
#include "tests/units.h"

using namespace terrace;
using namespace terrace::daemon;
using namespace terrace::tests;
using records::Endurance;

namespace {

constexpr std::uint32_t olga = 1000, paul = 1001, quin = 1002;

struct Writers : test::LeasedWriters {
  UserShares users;

  void say(std::uint64_t limit) {
    shares.set_limit(limit);
    shares.set_users(users);
  }
  WriteShares::WeightOf weights_of_jobs() const {
    return [this](const JobKey& job) { return users.of(job).weight; };
  }
  void lease() { LeasedWriters::lease(weights_of_jobs()); }
  std::uint64_t write_all(SessionId session) { return LeasedWriters::write_all(session, weights_of_jobs()); }
  void leave(SessionId session, std::uint32_t user) {
    written.give_back(user, shares.leave(session));
    told.erase(session);
  }
};

bool is_close(std::uint64_t bytes, std::uint64_t wanted) {
  return bytes <= wanted && bytes + WriteShares::none_bytes >= wanted;
}

}  // namespace

TEST_CASE_METHOD(Writers, "BytesThatAUserIsGuaranteedAreLeasedToNobodyElse") {
  users.set(olga, {.guarantee_bytes = 4 * gib});
  say(10 * gib);
  shares.join(1, {quin, "a"});
  CHECK(is_close(write_all(1), 6 * gib));
  shares.join(2, {olga, "a"});
  CHECK(is_close(write_all(2), 4 * gib));
  CHECK(written.today_bytes() <= 10 * gib);
}

TEST_CASE_METHOD(Writers, "WhatAUserWroteIsTakenOffHisGuarantee") {
  users.set(olga, {.guarantee_bytes = 4 * gib});
  say(10 * gib);
  shares.join(1, {olga, "a"});
  lease();
  shares.observe(1, WriteShares::first_bytes);
  leave(1, olga);
  const std::uint64_t wrote = written.today_bytes();
  shares.join(2, {quin, "a"});
  CHECK(is_close(write_all(2), 10 * gib - 4 * gib));
  shares.join(3, {olga, "b"});
  CHECK(is_close(write_all(3), 4 * gib - wrote));
}

TEST_CASE_METHOD(Writers, "AGroupHasItsGuaranteeAndNoMoreThanItsLimit") {
  users.add_group({.name = "lab", .guarantee_bytes = 3 * gib, .limit_bytes = 5 * gib}, {olga, paul});
  say(10 * gib);
  shares.join(1, {olga, "a"});
  shares.join(2, {paul, "a"});
  CHECK(write_all(1) + write_all(2) <= 5 * gib);
  CHECK(written.today_bytes() + 2 * WriteShares::none_bytes >= 5 * gib);
  written.begin_day(20001);
  leave(1, olga);
  leave(2, paul);
  shares.join(3, {quin, "a"});
  CHECK(write_all(3) <= 7 * gib);
}

TEST_CASE_METHOD(Writers, "AJobHasItsGuaranteeFromItsUsersOthers") {
  JobShares jobs;
  jobs.add({olga}, "nightly", {.guarantee_bytes = 4 * gib});
  users.set_jobs(std::move(jobs));
  say(10 * gib);
  shares.join(1, {olga, "other"});
  CHECK(is_close(write_all(1), 6 * gib));
  shares.join(2, {olga, "nightly"});
  CHECK(is_close(write_all(2), 4 * gib));
}

TEST_CASE_METHOD(Writers, "AJobThatComesBackOnTheSameDayHasNoNewLimit") {
  JobShares jobs;
  jobs.add({olga}, "small*", {.limit_bytes = gib});
  users.set_jobs(std::move(jobs));
  say(10 * gib);
  shares.join(1, {olga, "small"});
  CHECK(is_close(write_all(1), gib));
  leave(1, olga);
  shares.join(2, {olga, "small"});
  CHECK(write_all(2) < WriteShares::none_bytes);
  shares.join(3, {olga, "small too"});
  CHECK(is_close(write_all(3), gib));
  leave(3, olga);
  written.begin_day(20001);
  CHECK(write_all(2) > gib / 2);
  shares.join(4, {olga, "small too"});
  CHECK(is_close(write_all(4), gib));  // what it wrote yesterday is no part of today's
}

TEST_CASE_METHOD(Writers, "WhatIsLeftOfAJobsGuaranteeWaitsForIt") {
  JobShares jobs;
  jobs.add({olga}, "nightly", {.guarantee_bytes = 4 * gib});
  users.set_jobs(std::move(jobs));
  say(10 * gib);
  shares.join(1, {olga, "nightly"});
  lease();
  shares.observe(1, WriteShares::first_bytes);
  leave(1, olga);
  const std::uint64_t wrote = written.today_bytes();
  shares.join(2, {quin, "a"});
  CHECK(is_close(write_all(2), 6 * gib));
  shares.join(3, {olga, "nightly"});
  CHECK(is_close(write_all(3), 4 * gib - wrote));
}

// Two processes of one job: what the one writes the other cannot.
TEST_CASE_METHOD(Writers, "RanksOfOneJobShareWhatItMayWrite") {
  JobShares jobs;
  jobs.add({olga}, "train", {.limit_bytes = 2 * gib});
  users.set_jobs(std::move(jobs));
  say(10 * gib);
  shares.join(1, {olga, "train"});
  shares.join(2, {olga, "train"});
  CHECK(write_all(1) + write_all(2) <= 2 * gib);
  CHECK(shares.charged_bytes({olga, "train"}) + 2 * WriteShares::none_bytes >= 2 * gib);
}

// ---- histories --------------------------------------------------------------------------------------------

namespace {

// As the histories of pools: 1001 is guaranteed something, 1002 and 1003 are a group, two have rules by name.
struct WriteHistory : Writers {
  std::mt19937_64 random;
  std::map<SessionId, JobKey> there;
  std::map<JobKey, unsigned> rounds_without;
  std::uint64_t day = 20000;
  SessionId next = 1;
  static constexpr std::uint64_t limit = 40 * gib, cap = 24 * gib;

  explicit WriteHistory(std::uint64_t seed) : random(seed) {
    users.set_cap(cap);
    users.set(1001, {.weight = 3, .guarantee_bytes = 8 * gib, .limit_bytes = 16 * gib});
    users.add_group({.name = "lab", .guarantee_bytes = 12 * gib, .limit_bytes = 20 * gib}, {1002, 1003});
    JobShares jobs;
    jobs.add({1004}, "0", {.guarantee_bytes = 4 * gib});
    jobs.add({1003}, "*", {.limit_bytes = 4 * gib});
    users.set_jobs(std::move(jobs));
    say(limit);
  }
  std::uint64_t below(std::uint64_t bound) { return random() % bound; }
  void come() {
    const JobKey job{1000 + static_cast<std::uint32_t>(below(5)), std::to_string(below(3))};
    there[next] = job;
    shares.join(next++, job);
  }
  void go() {
    const auto gone = std::next(there.begin(), static_cast<long>(below(there.size())));
    leave(gone->first, gone->second.uid);
    there.erase(gone);
  }
  void write() {
    for (const auto& [id, lease] : told) {
      if (!there.contains(id) || below(3) == 0) continue;
      const std::uint64_t ahead = shares.ahead_bytes(id);
      shares.observe(id, lease.most_written_bytes - ahead + below(ahead + 1));
    }
  }
  void step() {
    const std::uint64_t what = below(40);
    if (what < 4 && there.size() < 20) come();
    if (what >= 4 && what < 6 && !there.empty()) go();
    if (what == 6 && below(20) == 0) ++day;
    written.begin_day(day);
    write();
    lease();
  }
  std::uint64_t of_users(std::uint32_t first, std::uint32_t last) const {
    std::uint64_t sum = 0;
    for (const auto& [uid, bytes] : written.today)
      if (uid >= first && uid <= last) sum += bytes;
    return sum;
  }
  static std::uint64_t missing(std::uint64_t guarantee, std::uint64_t has) {
    return guarantee - std::min(guarantee, has);
  }
  void check() {
    // What is guaranteed and not used yet is there beside all that was charged.
    const std::uint64_t kept = missing(8 * gib, of_users(1001, 1001)) +
                               missing(12 * gib, of_users(1002, 1003)) +
                               missing(4 * gib, of_users(1004, 1004));
    REQUIRE(written.today_bytes() + kept <= limit);
    for (std::uint32_t uid = 1000; uid <= 1004; ++uid) REQUIRE(of_users(uid, uid) <= cap);
    REQUIRE(of_users(1001, 1001) <= 16 * gib);
    REQUIRE(of_users(1002, 1003) <= 20 * gib);
    for (const auto& [id, job] : there)
      if (job.uid == 1003) REQUIRE(shares.charged_bytes(job) <= 4 * gib);
  }
  // A process that has used its lease up is leased more in the next round, if there is anything for its job.
  void check_nobody_starves() {
    for (const auto& [id, job] : there) {
      const bool waits = shares.ahead_bytes(id) == 0 &&
                         shares.left_bytes(job) >= 2 * WriteShares::least_bytes * there.size();
      rounds_without[job] = waits ? rounds_without[job] + 1 : 0;
      REQUIRE(rounds_without[job] <= 2);
    }
  }
};

}  // namespace

TEST_CASE("NoHistoryOfWritesTakesWhatIsGuaranteedOrPassesALimit") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    WriteHistory history(seed);
    for (int i = 0; i < 1500; ++i) {
      history.step();
      history.check();
      history.check_nobody_starves();
    }
    // Whatever happened, who is guaranteed something can write it.
    const std::uint64_t has = history.of_users(1001, 1001);
    history.shares.join(1'000'000, {1001, "new"});
    const std::uint64_t wrote = history.write_all(1'000'000);
    CHECK(wrote + WriteShares::none_bytes * 40 >= WriteHistory::missing(8 * gib, has));
  }
}
