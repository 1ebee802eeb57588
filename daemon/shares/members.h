// Who shares the machine's memory, and what is known of them: the processes, their jobs, and what each was
// promised, is due and holds. The arbiter's classes and functions read it and write it (arbiter.h). Pure; one
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "daemon/shares/entitlements.h"
#include "daemon/shares/job_key.h"
#include "daemon/shares/job_limit.h"
#include "daemon/shares/user_shares.h"

namespace terrace::daemon {

inline constexpr std::uint64_t least_budget_bytes = 4ULL << 20;  // two runs: less cannot page at all
// For a process whose demand is not known yet.
inline constexpr std::uint64_t starting_budget_bytes = 64ULL << 20;
// What was not used in so many reports of a process, or twice as many, is idle: 20 to 40 s of the registry's
// rounds, with 1,024 sessions 16 times as long.
inline constexpr std::uint64_t reports_until_idle = 200;

// A report may be older than a grant: a process may take what it was granted before until it has heard of
// less. Who does not go by a lower grant in so many rounds, a second of the registry's, is stopped or cannot.
inline constexpr unsigned hearing_rounds = 10;

using SessionId = std::uint64_t;

// What one process uses: what counts as resident (sessions/resident_check.h), and what it says that it has
// allocated. With that it can only cheat its own job.
struct Demand {
  std::uint64_t resident_bytes = 0;
  std::uint64_t live_bytes = 0;
  std::uint64_t obeyed_bytes = 0;  // the budget that it goes by; 0: it does not say
};

struct Member {
  JobKey job;
  std::uint64_t requested_bytes = 0;
  std::uint64_t granted_bytes = 0;
  Demand demand;
  std::uint64_t reports = 0;
  // The most that it had allocated since the last full `reports_until_idle`, and in those before.
  std::uint64_t peak_bytes = 0, peak_before_bytes = 0;
  bool fresh = true;             // nothing was announced to it yet
  std::uint64_t held_bytes = 0;  // of what it was granted before, what it still has; at least granted_bytes
  unsigned waited_rounds = 0;    // for it to give what it holds beyond its grant
  bool overdue = false;
  bool slow = false;  // was waited for longer than Arbiter::slow_rounds
  bool restrained = false;

  // What it was granted before it has until it says that it has less and, for `hearing_rounds`, that it goes
  // by less: from then on it cannot get more.
  void update_held();
  void report(const Demand& said);
};

struct JobPause {
  std::uint64_t promised_bytes = 0;  // before
  bool fixed = false;                // before
  bool stays = false;
  unsigned rounds_left = 0;
};

struct MemberJob {
  std::vector<SessionId> sessions;
  std::uint64_t promised_bytes = 0;  // 0: shares what is left
  std::uint64_t budget_bytes = 0;    // as last divided
  std::uint64_t usable_bytes = 0;    // with loans, as of the last rebalance
  std::uint64_t idle_bytes = 0;      // of the budget, what others may borrow
  bool fixed = false;                // set by an administrator
  JobShare share;                    // what the administrator says of it by name
  std::uint32_t said_weight = 0;     // by the job or its user, which goes before; 0: nothing
  JobLimit limit;
  std::optional<JobPause> pause;
  bool unsettled = true;    // membership or budget changed, or a raise is owed
  unsigned owed_times = 0;  // the latest rebalances that could not raise it to what is its

  // It may use more than it has for certain.
  bool borrows() const { return usable_bytes > budget_bytes; }

  // Promised or lent.
  std::uint64_t most_bytes() const;
  std::uint32_t weight() const { return said_weight != 0 ? said_weight : share.weight; }
};

struct Members {
  std::uint64_t machine_bytes = 0;
  UserShares users;
  std::map<SessionId, Member> sessions;
  std::map<JobKey, MemberJob> jobs;

  // Null: not there.
  const MemberJob* find(const JobKey& key) const;
  MemberJob* find(const JobKey& key);
  const Member* find(SessionId id) const;
  Member* find(SessionId id);

  // Promised to jobs that asked for a size.
  std::uint64_t promised_bytes() const;
  // The largest that a process of the job asked for, within its limit.
  std::uint64_t requested_bytes(const MemberJob& job) const;
  // In the order of `jobs`.
  std::vector<JobPart> parts() const;

  // What users and jobs may have, from now on; divide() is yet to be called.
  void set_users(UserShares shares);
  void join(SessionId id, const JobKey& key, std::uint64_t requested_bytes);
  void leave(SessionId id);
  // Works out each job's budget. To be called after whatever changes promises, weights, limits or who is
  // there.
  void divide();
};

}  // namespace terrace::daemon
