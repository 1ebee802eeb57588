// What jobs do not use is lent to others, and comes back when they ask, whatever the borrowers do.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <utility>

#include "daemon/shares/arbiter.h"
#include "tests/units.h"

using namespace terrace::daemon;

namespace {

using terrace::tests::gib;
using terrace::tests::mib;

// How a process gives up what it is told to.
enum class Gives { at_once, slowly, never };

struct UsingProcess {
  JobKey job;
  std::uint64_t live = 0, resident = 0;
  Gives gives = Gives::at_once;
};

struct SharedMachine {
  static constexpr std::uint64_t bytes = 10 * gib;
  Arbiter arbiter{bytes};
  std::map<SessionId, UsingProcess> processes;
  std::vector<SessionId> late;

  void join(SessionId id, const JobKey& job, std::uint64_t promise, std::uint64_t live,
            Gives gives = Gives::at_once) {
    REQUIRE_FALSE(arbiter.admit(id, job, promise));
    processes[id] = {job, live, 0, gives};
  }
  void round() {
    arbiter.rebalance();
    for (auto& [id, process] : processes) {
      const std::uint64_t granted = arbiter.granted_bytes(id);
      const std::uint64_t kept = std::min(process.live, granted);
      if (process.resident <= kept || process.gives == Gives::at_once)
        process.resident = kept;
      else if (process.gives == Gives::slowly)
        process.resident -= std::min<std::uint64_t>(process.resident - kept, mib);
      arbiter.observe(id, {process.resident, process.live});
    }
    const auto named = arbiter.end_round();
    late.insert(late.end(), named.begin(), named.end());
  }
  void rounds(unsigned count) {
    for (unsigned i = 0; i < count; ++i) round();
  }
  std::uint64_t granted(SessionId id) const { return arbiter.granted_bytes(id); }
  unsigned rounds_until_granted(SessionId id, std::uint64_t wanted) {
    unsigned count = 0;
    for (; granted(id) < wanted && count < 10'000; ++count) round();
    return count;
  }
};

const JobKey idle{1000, "idle"}, busy{2000, "busy"}, third{3000, "third"};

// One that was promised 6 GiB and uses 1, beside one that would use all.
struct Lent : SharedMachine {
  void begin(Gives gives) {
    join(1, idle, 6 * gib, gib);
    join(2, busy, 0, 20 * gib, gives);
    rounds(400);
  }
};

}  // namespace

TEST_CASE_METHOD(Lent, "WhatAJobDoesNotUseOfItsPromiseIsLent") {
  begin(Gives::at_once);
  CHECK(granted(2) > 8 * gib);
  CHECK(granted(1) >= gib + Arbiter::starting_bytes);
  CHECK(granted(1) + granted(2) <= bytes);
  CHECK(arbiter.job_budget_bytes(idle) == 6 * gib);
  CHECK(arbiter.job_loan(idle).lent_bytes == arbiter.job_loan(busy).borrowed_bytes);
  CHECK(arbiter.job_loan(busy).borrowed_bytes == granted(2) - 4 * gib);
  CHECK(arbiter.admit(3, third, 5 * gib)->available_bytes == 4 * gib - 4 * mib);  // still promised
}

TEST_CASE_METHOD(SharedMachine, "WhoHasJustBegunIsNotIdle") {
  join(1, idle, 6 * gib, 0);
  join(2, busy, 0, 20 * gib);
  rounds(5);
  CHECK(granted(1) >= 5 * gib);
}

TEST_CASE_METHOD(SharedMachine, "NothingIsLentWhereNobodyWantsIt") {
  join(1, idle, 6 * gib, gib);
  join(2, busy, 0, gib);
  rounds(400);
  CHECK(granted(1) == 6 * gib);
  CHECK(granted(2) == 4 * gib);
}

TEST_CASE_METHOD(Lent, "WhatWasLentComesBackInTheNextRounds") {
  begin(Gives::at_once);
  processes[1].live = 6 * gib;
  CHECK(rounds_until_granted(1, 6 * gib) <= 3);
  CHECK(granted(2) <= 4 * gib);
}

TEST_CASE_METHOD(Lent, "WhatWasLentComesBackWhateverTheBorrowerDoes") {
  const Gives gives = GENERATE(Gives::slowly, Gives::never);
  begin(gives);
  processes[1].live = 6 * gib;
  CHECK(rounds_until_granted(1, 6 * gib) <= Arbiter::patience_rounds + 3);
  CHECK(late == std::vector<SessionId>{2});
}

TEST_CASE_METHOD(Lent, "WhoDidNotGiveBorrowsNothingMore") {
  begin(Gives::never);
  processes[1].live = 6 * gib;
  rounds(Arbiter::patience_rounds + 3);
  processes[1].live = 0;
  rounds(1000);
  CHECK(arbiter.job_loan(busy).borrowed_bytes == 0);
  CHECK(granted(2) <= 4 * gib);
  CHECK(granted(1) == 6 * gib);
}

// It gives just before it would be named.
TEST_CASE_METHOD(Lent, "WhoGaveSlowlyBorrowsNothingMore") {
  begin(Gives::never);
  processes[1].live = 6 * gib;
  rounds(Arbiter::patience_rounds - 10);
  processes[2].gives = Gives::at_once;
  rounds(5);
  CHECK(late.empty());
  CHECK(granted(1) >= 6 * gib);
  processes[1].live = 0;
  rounds(1000);
  CHECK(granted(2) <= 4 * gib);
}

// A new daemon knows what it was granted and not that it was borrowed.
TEST_CASE_METHOD(SharedMachine, "WhatWasBorrowedFromAnEarlierDaemonIsNotFree") {
  CHECK(arbiter.readmit(2, idle, 6 * gib, 2 * gib));
  CHECK(arbiter.readmit(1, busy, 0, 8 * gib));
  processes[1] = {busy, 20 * gib, 8 * gib, Gives::never};
  processes[2] = {idle, 6 * gib, 2 * gib, Gives::at_once};
  rounds(5);
  CHECK(granted(1) == 4 * gib);
  CHECK(granted(2) == 2 * gib);
  processes[1].gives = Gives::at_once;
  rounds(5);
  CHECK(granted(2) == 6 * gib);
}

// While one is not given back, somebody else stops using 1 GiB: it is not lent to those who borrow already.
TEST_CASE_METHOD(SharedMachine, "WhoAsksForHisOwnGoesBeforeWhoBorrows") {
  const JobKey asks{3000, "asks"}, borrower{1000, "borrower"}, stops{500, "stops"};
  join(1, asks, 4 * gib, 0);
  join(2, borrower, 0, 20 * gib);
  join(3, {2000, "keeps"}, 0, 20 * gib, Gives::never);
  join(4, stops, gib, gib);
  rounds(450);
  processes[1].live = 4 * gib;
  processes[4].live = 0;
  rounds(3);
  const std::uint64_t before = granted(2);
  unsigned waits = 0, lent = 0;
  for (; granted(1) < 4 * gib && waits < 2 * Arbiter::patience_rounds; ++waits) {
    if (arbiter.job_loan(stops).lent_bytes != 0) ++lent;
    REQUIRE(granted(2) <= before);
    round();
  }
  CHECK(lent > 10);
  CHECK(waits <= Arbiter::patience_rounds + 3);
}

TEST_CASE_METHOD(SharedMachine, "AJobWithAPromiseKeepsToIt") {
  join(1, idle, 6 * gib, gib);
  join(2, busy, 2 * gib, 20 * gib);
  rounds(400);
  CHECK(granted(2) == 2 * gib);
}

TEST_CASE_METHOD(SharedMachine, "LoansKeepToLimits") {
  UserShares users;
  users.set(busy.uid, {.limit_bytes = 5 * gib});
  arbiter.set_users(users);
  join(1, idle, 6 * gib, 0);
  join(2, busy, 0, 20 * gib);
  join(3, third, 0, 20 * gib);
  REQUIRE_FALSE(arbiter.set_job_limit(third, 3 * gib, Arbiter::By::administrator));
  rounds(600);
  CHECK(granted(2) <= 5 * gib);
  CHECK(granted(2) > 4 * gib);
  CHECK(granted(3) <= 3 * gib);
  CHECK(granted(3) > 2 * gib);
}

TEST_CASE_METHOD(SharedMachine, "WhatIsIdleIsLentByWeights") {
  UserShares users;
  users.set(busy.uid, {.weight = 3});
  arbiter.set_users(users);
  join(1, idle, 8 * gib, 0);
  join(2, busy, 0, 20 * gib);
  join(3, third, 0, 20 * gib);
  rounds(800);
  CHECK(granted(2) + granted(3) > 9 * gib);
  CHECK(static_cast<double>(granted(2)) == Approx(3.0 * static_cast<double>(granted(3))).epsilon(0.05));
}

TEST_CASE_METHOD(SharedMachine, "NothingIdleIsLentWhereTheAdministratorSaysSo") {
  UserShares users;
  users.set_lends_idle(false);
  arbiter.set_users(users);
  join(1, idle, 6 * gib, 0);
  join(2, busy, 0, 20 * gib);
  rounds(800);
  CHECK(granted(1) == 6 * gib);
  CHECK(granted(2) == 4 * gib);
}

// A step that allocates and frees a lot again and again is not called idle in between.
TEST_CASE_METHOD(SharedMachine, "AJobsStepsDoNotLendAndCallBack") {
  join(1, idle, 6 * gib, 5 * gib);
  join(2, busy, 0, 20 * gib);
  rounds(600);
  unsigned changes = 0;
  for (unsigned i = 0; i < 600; ++i) {
    processes[1].live = i % 10 < 5 ? 5 * gib : 4 * gib;
    const std::uint64_t before = granted(1);
    round();
    changes += granted(1) == before ? 0 : 1;
  }
  CHECK(changes == 0);
}

// It was told to give to another process of its job, which wants it no more.
TEST_CASE_METHOD(SharedMachine, "WhatAProcessStillHoldsIsItsAgainAtOnce") {
  join(1, busy, 0, 20 * gib, Gives::never);
  rounds(3);
  join(2, busy, 0, 20 * gib);
  rounds(3);
  REQUIRE(granted(1) <= 5 * gib);
  processes[2].live = 0;
  rounds(2);
  CHECK(granted(1) >= bytes - 2 * Arbiter::starting_bytes);
}

// Whatever the order of their keys.
TEST_CASE_METHOD(SharedMachine, "WhoHasWaitedGoesBeforeWhoAsksAnew") {
  join(1, idle, 4 * gib, 0);
  join(2, busy, 0, 20 * gib, Gives::slowly);
  join(3, third, 4 * gib, 0);
  rounds(600);
  processes[3].live = 4 * gib;
  rounds(100);
  const std::uint64_t before = granted(3), of_the_other = granted(1);
  processes[1].live = 4 * gib;
  rounds(200);
  CHECK(granted(1) == of_the_other);
  CHECK(granted(3) >= before + 150 * mib);
}

// ---- histories --------------------------------------------------------------------------------------------

namespace {

// Jobs of grouped and other users that ask, use, do not give, come and go.
struct Lending : SharedMachine {
  std::mt19937_64 random;
  SessionId next = 1;
  std::map<JobKey, unsigned> rounds_without;
  std::map<JobKey, std::uint64_t> live_before;
  std::uint64_t most_ever_lent = 0;
  static constexpr std::uint64_t job_guarantee = gib, job_limit = 2 * gib;

  explicit Lending(std::uint64_t seed) : random(seed) {
    UserShares users;
    users.set_cap(5 * gib);
    users.set(1000, {.weight = 3, .guarantee_bytes = gib});
    users.set(1003, {.guarantee_bytes = gib, .limit_bytes = 4 * gib});
    users.add_group({.name = "lab", .guarantee_bytes = 3 * gib, .limit_bytes = 7 * gib}, {1000, 1001});
    JobShares jobs;
    jobs.add({1001}, "0", {.guarantee_bytes = job_guarantee});
    jobs.add({1002}, "*", {.weight = 5, .limit_bytes = job_limit});
    users.set_jobs(std::move(jobs));
    arbiter.set_users(users);
  }

  std::uint64_t below(std::uint64_t bound) { return random() % bound; }
  void change() {
    if (below(3) != 0 || processes.empty()) return come();
    const auto victim = std::next(processes.begin(), static_cast<long>(below(processes.size())));
    arbiter.leave(victim->first);
    processes.erase(victim);
  }
  void come() {
    if (processes.size() > 20) return;
    const JobKey job{1000 + static_cast<std::uint32_t>(below(4)), std::to_string(below(3))};
    const std::uint64_t promise = below(2) == 0 ? 0 : 64 * mib + below(3 * gib);
    if (arbiter.admit(next, job, promise)) return;
    processes[next++] = {job, 0, 0, static_cast<Gives>(below(3))};
  }
  void use() {
    for (auto& [id, process] : processes)
      if (below(200) == 0) process.live = below(3) == 0 ? 0 : below(6 * gib);
  }

  std::map<JobKey, std::vector<SessionId>> jobs() const {
    std::map<JobKey, std::vector<SessionId>> all;
    for (const auto& [id, process] : processes) all[process.job].push_back(id);
    return all;
  }
  // What all may use together, and each.
  void check_sums() {
    std::uint64_t usable = 0, group = 0, borrowed = 0;
    for (const auto& [job, ids] : jobs()) {
      const Arbiter::JobLoan loan = arbiter.job_loan(job);
      const std::uint64_t has = arbiter.job_budget_bytes(job) + loan.borrowed_bytes - loan.lent_bytes;
      REQUIRE((loan.borrowed_bytes == 0 || arbiter.job_promised_bytes(job) == 0));
      std::uint64_t granted_bytes = 0;
      for (const SessionId id : ids) granted_bytes += granted(id);
      REQUIRE(granted_bytes <= has + has / 32 * ids.size() + ids.size() * Arbiter::starting_bytes);
      usable += has;
      borrowed += loan.borrowed_bytes;
      if (job.uid <= 1001) group += has;
      if (job.uid == 1002) REQUIRE(has <= job_limit);
      if (job == JobKey{1001, "0"} && arbiter.job_promised_bytes(job) == 0)
        REQUIRE(arbiter.job_budget_bytes(job) >= job_guarantee);
    }
    REQUIRE(usable <= bytes);
    REQUIRE(group <= 7 * gib);
    most_ever_lent = std::max(most_ever_lent, borrowed);
  }
  // What a job has for certain and has allocated it is granted soon, but for what is too little to announce.
  // `settled`: nobody came or went in this round, which would change what it has for certain.
  void check_nobody_waits(bool settled) {
    for (const auto& [job, ids] : jobs()) {
      std::uint64_t granted_bytes = 0, live = 0;
      for (const SessionId id : ids) {
        granted_bytes += granted(id);
        live += processes[id].live;
      }
      const std::uint64_t due = arbiter.job_budget_bytes(job);
      const bool lacks = granted_bytes + due / 16 + Arbiter::starting_bytes < std::min(due, live);
      const bool asks_anew = live > std::exchange(live_before[job], live);
      unsigned& without = rounds_without[job];
      without = lacks && settled && !asks_anew ? without + 1 : 0;
      REQUIRE(without <= Arbiter::patience_rounds + 3);
    }
  }
};

}  // namespace

TEST_CASE("NoHistoryLendsTooMuchOrLetsAJobWaitForItsOwn") {
  const std::uint64_t seed = GENERATE(1, 2, 3, 4, 5, 6, 16, 32, 100);  // in the last ones some waited longer
  Lending history(seed);
  for (unsigned i = 0; i < 8000; ++i) {
    const bool changes = i % 1500 < 20;
    if (changes) history.change();
    history.use();
    history.round();
    history.check_sums();
    history.check_nobody_waits(!changes);
  }
  CHECK(history.most_ever_lent > gib);
}
