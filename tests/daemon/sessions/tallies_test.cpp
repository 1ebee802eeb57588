// Sums of what sessions did: whatever these say, and however they come and go, no sum falls.
#include "daemon/sessions/tallies.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace terrace;
using namespace terrace::daemon;

namespace {

constexpr auto read_index = static_cast<std::size_t>(wire::Stat::read_bytes);

Counters having_read(std::uint64_t bytes) {
  Counters counters{};
  counters[read_index] = bytes;
  return counters;
}

std::uint64_t read_by(const Tally& tally) { return tally.did[read_index]; }

const JobKey train_job{1000, "train"};

}  // namespace

TEST_CASE("WhatSessionsOfAJobDidAddsUp") {
  Tallies tallies(10);
  tallies.join(1, train_job, false, 1);
  tallies.join(2, train_job, false, 1);
  tallies.observe(1, having_read(10));
  tallies.observe(2, having_read(5));
  tallies.observe(1, having_read(25));
  CHECK(read_by(tallies.jobs().at(train_job)) == 30);
  CHECK(read_by(tallies.users().at(1000)) == 30);
  CHECK(tallies.all()[read_index] == 30);
}

TEST_CASE("ATotalDoesNotFallWhenItsSessionEnds") {
  Tallies tallies(10);
  tallies.join(1, train_job, false, 1);
  tallies.observe(1, having_read(40));
  tallies.leave(1, 2);
  tallies.observe(1, having_read(50));  // of a session that is gone
  CHECK(read_by(tallies.jobs().at(train_job)) == 40);
  tallies.join(2, train_job, false, 3);
  tallies.observe(2, having_read(5));
  CHECK(read_by(tallies.jobs().at(train_job)) == 45);
}

TEST_CASE("ASessionThatIsBackCountsFromWhatItSaysFirst") {
  Tallies tallies(10);
  tallies.join(1, train_job, true, 1);
  tallies.observe(1, having_read(1000));
  CHECK(read_by(tallies.jobs().at(train_job)) == 0);
  tallies.observe(1, having_read(1010));
  CHECK(read_by(tallies.jobs().at(train_job)) == 10);
}

TEST_CASE("WhoSaysLessOrFarTooMuchAddsNothing") {
  Tallies tallies(10);
  tallies.join(1, train_job, false, 1);
  tallies.observe(1, having_read(100));
  tallies.observe(1, having_read(0));
  CHECK(read_by(tallies.jobs().at(train_job)) == 100);
  tallies.observe(1, having_read(Tallies::implausible + 1));
  CHECK(read_by(tallies.jobs().at(train_job)) == 100);
  tallies.observe(1, having_read(0));
  tallies.observe(1, having_read(7));
  CHECK(read_by(tallies.jobs().at(train_job)) == 107);
}

TEST_CASE("ASumThatIsFullStaysSo") {
  Tallies tallies(10);
  tallies.join(1, train_job, false, 1);
  std::uint64_t before = 0;
  for (int i = 0; i < 70'000; ++i) {
    tallies.observe(1, having_read(0));
    tallies.observe(1, having_read(Tallies::implausible));
    REQUIRE(read_by(tallies.jobs().at(train_job)) >= before);
    before = read_by(tallies.jobs().at(train_job));
  }
  CHECK(before > ~std::uint64_t{0} - Tallies::implausible);
}

TEST_CASE("JobsThatAreNotToldApartAreOneSum") {
  Tallies tallies(2);
  tallies.join(1, {1, "a"}, false, 1);
  tallies.join(2, {2, "b"}, false, 1);
  tallies.join(3, {3, "c"}, false, 1);
  tallies.join(4, {4, "d"}, false, 1);
  for (SessionId id = 1; id <= 4; ++id) tallies.observe(id, having_read(10 * id));
  CHECK(tallies.jobs().size() == 2);
  CHECK(tallies.users().size() == 2);
  CHECK(read_by(tallies.other_jobs()) == 70);
  CHECK(read_by(tallies.other_users()) == 70);
  CHECK(tallies.other_jobs().sessions == 2);
}

TEST_CASE("OneUserDoesNotUseUpThePlaces") {
  Tallies tallies(16);
  for (SessionId id = 1; id <= 100; ++id) tallies.join(id, {1, "job" + std::to_string(id)}, false, 1);
  CHECK(tallies.jobs().size() == 8);
  for (SessionId id = 101; id <= 200; ++id) tallies.join(id, {2, "job" + std::to_string(id)}, false, 1);
  CHECK(tallies.jobs().size() == 12);
  tallies.join(201, {3, "late"}, false, 1);
  CHECK(tallies.is_apart(JobKey{3, "late"}));
}

TEST_CASE("AnEndedJobKeepsItsPlaceForAWhile") {
  Tallies tallies(1);
  tallies.join(1, train_job, false, 1);
  tallies.observe(1, having_read(40));
  tallies.leave(1, 5);
  tallies.forget_old(4 + Tallies::keep_ns);
  CHECK(tallies.is_apart(train_job));
  tallies.join(2, {2, "next"}, false, 5 + Tallies::keep_ns);
  CHECK_FALSE(tallies.is_apart(train_job));
  CHECK(tallies.is_apart(JobKey{2, "next"}));
  CHECK(tallies.users().size() == 1);
  CHECK(tallies.all()[read_index] == 40);
}

// Random lives of sessions that say anything: no sum that is there in two looks has fallen between them.
TEST_CASE("NoHistoryLetsATotalFall") {
  std::mt19937 random(7);
  Tallies tallies(8);
  std::vector<std::pair<SessionId, std::uint64_t>> running;
  std::map<JobKey, std::uint64_t> before;
  std::uint64_t all = 0, others = 0, now = 0;
  for (SessionId next = 1; next < 20'000; ++next) {
    now += random() % 2'000'000'000;
    std::set<JobKey> old;  // that may be forgotten in this step, and begin anew
    for (const auto& [job, tally] : tallies.jobs())
      if (tally.sessions == 0 && now >= tally.idle_ns + Tallies::keep_ns) old.insert(job);
    if (running.size() < 40 && random() % 2 == 0) {
      tallies.join(next, {static_cast<std::uint32_t>(random() % 5), "job" + std::to_string(random() % 6)},
                   random() % 3 == 0, now);
      running.emplace_back(next, 0);
    } else if (!running.empty() && random() % 3 == 0) {
      tallies.leave(running.front().first, now);
      running.erase(running.begin());
    }
    for (auto& [id, bytes] : running) {
      bytes = random() % 10 == 0 ? random() : bytes + random() % 1000;
      tallies.observe(id, having_read(bytes));
    }
    std::map<JobKey, std::uint64_t> after;
    for (const auto& [job, tally] : tallies.jobs()) after[job] = read_by(tally);
    bool has_fallen = tallies.all()[read_index] < all || read_by(tallies.other_jobs()) < others;
    std::uint64_t sum = read_by(tallies.other_jobs());
    for (const auto& [job, bytes] : after) {
      has_fallen = has_fallen || (before.contains(job) && !old.contains(job) && bytes < before[job]);
      sum += bytes;
    }
    REQUIRE_FALSE(has_fallen);
    REQUIRE(sum <= tallies.all()[read_index]);
    all = tallies.all()[read_index];
    others = read_by(tallies.other_jobs());
    before = std::move(after);
  }
  CHECK(all != 0);
  CHECK(others != 0);
}
