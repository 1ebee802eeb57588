// How a day's bytes are divided: the sums, the fairness, and that no report moves another's part.
#include "daemon/writes/write_shares.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "tests/daemon/writes/leased_writers.h"
#include "tests/units.h"

using namespace terrace;
using namespace terrace::daemon;
using namespace terrace::tests;
using records::Endurance;

namespace {

constexpr std::uint32_t hana = 1000, ivan = 1001;

struct SharesFixture : test::LeasedWriters {
  std::map<JobKey, std::uint32_t> weights;

  void join(SessionId session, std::uint32_t user, const char* job = "train", std::uint64_t stands_at = 0) {
    shares.join(session, {user, job}, stands_at != 0);
    shares.observe(session, stands_at);
  }
  WriteShares::WeightOf weights_of_jobs() const {
    return [this](const JobKey& job) { return weights.contains(job) ? weights.at(job) : 1U; };
  }
  void lease() { LeasedWriters::lease(weights_of_jobs()); }
  std::uint64_t write_all(SessionId session) { return LeasedWriters::write_all(session, weights_of_jobs()); }
  void limit(std::uint64_t bytes, std::uint64_t cap = no_limit) {
    UserShares users;
    users.set_cap(cap);
    shares.set_limit(bytes);
    shares.set_users(std::move(users));
  }
};

bool is_near(std::uint64_t bytes, std::uint64_t wanted) {
  return bytes <= wanted && bytes + WriteShares::none_bytes >= wanted;
}

}  // namespace

TEST_CASE_METHOD(SharesFixture, "a job alone writes all of the day's bytes and no more") {
  limit(10 * gib);
  join(1, hana);
  CHECK(is_near(write_all(1), 10 * gib));
  CHECK(shares.left_bytes(written) < WriteShares::none_bytes);
  CHECK(written.today_bytes() == told[1].most_written_bytes);
  join(2, ivan);
  CHECK(write_all(2) == 0);
  CHECK(told[2].is_last);
}

TEST_CASE_METHOD(SharesFixture, "a user is leased at most his cap and root all there is") {
  limit(10 * gib, 4 * gib);
  join(1, hana);
  CHECK(is_near(write_all(1), 4 * gib));
  join(2, 0);
  CHECK(is_near(write_all(2), 6 * gib));
}

TEST_CASE_METHOD(SharesFixture,
                 "users who write at once have equal parts however many processes one of them has") {
  limit(16 * gib);
  for (SessionId id = 1; id <= 20; ++id) join(id, hana, id % 2 == 0 ? "train" : "other");
  join(100, ivan);
  for (int round = 0; round < 2000; ++round) {
    lease();
    for (auto& [id, lease] : told) shares.observe(id, lease.most_written_bytes);
  }
  CHECK(is_near(written.today.at(ivan), 8 * gib));
  CHECK(written.today.at(hana) + 20 * WriteShares::none_bytes >= 8 * gib);
}

TEST_CASE_METHOD(SharesFixture, "weights of users and of jobs divide what they write at once") {
  UserShares users;
  users.set(hana, {.weight = 3});
  shares.set_limit(8 * gib);
  shares.set_users(std::move(users));
  weights[{hana, "large"}] = 2;
  join(1, hana, "large");
  join(2, hana, "small");
  join(3, ivan);
  for (int round = 0; round < 2000; ++round) {
    lease();
    for (auto& [id, lease] : told) shares.observe(id, lease.most_written_bytes);
  }
  CHECK(is_near(told[1].most_written_bytes, 4 * gib));
  CHECK(is_near(told[2].most_written_bytes, 2 * gib));
  CHECK(is_near(told[3].most_written_bytes, 2 * gib));
}

TEST_CASE_METHOD(SharesFixture, "what a session was leased and did not write is its user's again") {
  limit(gib);
  join(1, hana);
  lease();
  REQUIRE(told[1].most_written_bytes == WriteShares::first_bytes);
  shares.observe(1, mib);
  written.give_back(hana, shares.leave(1));
  CHECK(written.today_bytes() == mib);
  CHECK(shares.leave(1) == 0);
}

TEST_CASE_METHOD(SharesFixture, "a report beyond the lease or one that goes back moves nothing") {
  limit(10 * gib);
  join(1, hana);
  join(2, ivan);
  lease();
  const std::uint64_t charged = written.today_bytes();
  shares.observe(1, ~std::uint64_t{0});
  CHECK(written.today_bytes() == charged);
  CHECK(shares.reported_bytes() == told[1].most_written_bytes);
  shares.observe(1, 0);
  CHECK(shares.ahead_bytes(1) == 0);
  CHECK(write_all(2) + WriteShares::none_bytes >= 5 * gib);
}

TEST_CASE_METHOD(SharesFixture, "who hides what he writes takes at most a user's cap from others") {
  limit(10 * gib, 4 * gib);
  shares.set_unreported(100 * gib);
  CHECK(shares.left_bytes(written) == 6 * gib);
  join(1, hana);
  join(2, ivan);
  CHECK(write_all(1) <= 4 * gib);
  CHECK(write_all(2) + WriteShares::none_bytes >= 2 * gib);
}

TEST_CASE_METHOD(SharesFixture, "a process that comes back is leased from where its count stands") {
  limit(gib);
  join(1, hana, "train", 70 * gib);
  lease();
  CHECK(told[1].most_written_bytes == 70 * gib + WriteShares::first_bytes);
  CHECK(written.today_bytes() == WriteShares::first_bytes);
  join(2, hana, "liar", ~std::uint64_t{0});
  lease();
  CHECK(told[2].most_written_bytes >= records::most_written_bytes);
}

TEST_CASE_METHOD(SharesFixture, "without a limit all is counted and nobody is told a lease") {
  join(1, hana);
  lease();
  shares.observe(1, WriteShares::first_bytes);
  lease();
  CHECK(told.empty());
  CHECK(written.today_bytes() > WriteShares::first_bytes);
  shares.join(2, {ivan, "back"}, true);
  shares.observe(2, mib);
  lease();
  lease();
  CHECK(told.size() == 1);
  CHECK(told.at(2).most_written_bytes == no_limit);  // what an earlier daemon leased is void
  limit(gib);                                        // as by a reload
  lease();
  CHECK(told.at(1).most_written_bytes != no_limit);
}

TEST_CASE_METHOD(SharesFixture, "another day begins with what was leased and is not written") {
  limit(gib);
  join(1, hana);
  write_all(1);
  join(2, ivan);
  lease();
  CHECK(told[2].is_last);
  written.begin_day(20001);
  lease();
  CHECK_FALSE(told[2].is_last);
  CHECK(told[2].most_written_bytes > 0);
  CHECK(written.today_bytes() <= gib);
  shares.observe(2, mib);
  const std::uint64_t ahead = shares.ahead_bytes();
  written.begin_day(20002);
  CHECK(shares.is_due(20002));
  lease();
  CHECK(written.today_bytes() >= ahead);
  CHECK(written.today_bytes() <= gib);
}

TEST_CASE_METHOD(SharesFixture, "leases are due after what may ask for some and after nothing else") {
  const auto is_due = [&] { return shares.is_due(written.day); };
  limit(100 * gib);
  join(1, hana);
  CHECK(is_due());
  lease();
  CHECK_FALSE(is_due());
  shares.observe(1, mib);  // who has written is leased more
  CHECK(is_due());
  lease();
  shares.observe(1, 2 * mib);
  CHECK_FALSE(is_due());
  shares.observe(1, told[1].most_written_bytes / 2);
  CHECK(is_due());
  lease();
  CHECK_FALSE(is_due());
  limit(50 * gib);
  CHECK(is_due());
  lease();
  CHECK_FALSE(is_due());
  CHECK_FALSE(shares.set_job_limit({hana, "train"}, {gib}));
  CHECK(is_due());
  lease();
  CHECK_FALSE(is_due());
  join(2, ivan, "train", gib);
  CHECK(is_due());
}

// Sessions come, write, say that they wrote more, and go; days pass, the clock goes back, and the daemon
// starts anew.
TEST_CASE("RandomHistoriesNeverPassTheLimit") {
  std::mt19937 random(11);
  const auto pick = [&](std::uint64_t below) { return std::uint64_t{random()} % below; };
  for (int history = 0; history < 60; ++history) {
    const std::uint64_t limit = (1 + pick(64)) * 128 * mib, cap = history % 3 == 0 ? no_limit : limit / 2;
    auto f = std::make_unique<SharesFixture>();
    f->limit(limit, cap);
    std::map<SessionId, std::uint64_t> stands_at, today;  // what really is written by who keeps to his leases
    std::map<SessionId, std::uint32_t> user;
    std::uint64_t day = 20000, really_today = 0;
    SessionId next = 1;
    for (int step = 0; step < 400; ++step) {
      const std::uint64_t what = pick(100);
      if (what < 15 && user.size() < 30) {
        user[next] = static_cast<std::uint32_t>(1000 + pick(5));
        stands_at[next] = pick(4) == 0 ? pick(100) * gib : 0;
        f->join(next, user[next], pick(2) == 0 ? "a" : "b", stands_at[next]);
        ++next;
      } else if (what < 25 && !user.empty()) {
        const SessionId gone = std::next(user.begin(), static_cast<long>(pick(user.size())))->first;
        f->written.give_back(user[gone], f->shares.leave(gone));
        user.erase(gone);
        f->told.erase(gone);
      } else if (what < 27) {
        day += pick(2) + 1;
        really_today = 0;
      } else if (what < 29) {  // the clock: back by a day, which changes nothing
        f->written.begin_day(day - 1);
      } else if (what < 31) {  // a daemon that was killed: leases stay charged
        const Endurance record = f->written;
        f = std::make_unique<SharesFixture>();
        f->limit(limit, cap);
        f->written = record;
        for (const auto& [id, uid] : user) f->join(id, uid, "a", stands_at[id]);
      } else {
        for (const auto& [id, lease] : f->told) {
          if (!user.contains(id) || pick(2) == 0 || lease.most_written_bytes <= stands_at[id]) continue;
          const std::uint64_t bytes = pick(lease.most_written_bytes - stands_at[id] + 1);
          stands_at[id] += bytes;
          const bool is_liar = user[id] == 1004;
          really_today += is_liar ? 0 : bytes;
          const std::uint64_t lie = is_liar ? pick(1 << 20) << pick(40) : 0;
          f->shares.observe(id, stands_at[id] + lie);
        }
      }
      f->written.begin_day(day);
      const bool may_be_due = pick(2) == 0 || f->shares.is_due(day);
      const auto told = f->told;
      f->lease();
      REQUIRE((may_be_due || f->told == told));
      REQUIRE(f->written.today_bytes() <= limit);
      REQUIRE(really_today <= limit);
      for (const auto& [uid, bytes] : f->written.today) REQUIRE(bytes <= cap);
      for (const auto& [id, lease] : f->told) REQUIRE(f->shares.ahead_bytes(id) <= WriteShares::step_bytes);
    }
  }
}
