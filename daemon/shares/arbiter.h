// Who may keep how much DRAM. Pure: no clock, no I/O, the same answers for the same questions.
//
//   machine budget ── group ── user ── job (uid, name) ── session (a process of the job)
//
// A job's budget is the largest that one of its sessions asked for; it is met in full or the session is
// refused with what is left. Promises cannot be called back, so that one user's jobs, however many, are
// promised at most their user's cap in all, and nobody is promised what is guaranteed to another
// (shares/user_shares.h). What is not promised is lent: to the users who have jobs without a promise, whoever
// has least for his weight first (shares/shares.h), and by each of them to those jobs, by their weights. A
// hundred jobs of one user leave to another what one job would.
// What jobs have for certain by that and do not use is lent as well, to jobs that were promised nothing and
// would use more (shares/entitlements.h). A job uses what it has allocated, the most of its last reports, and
// an eighth more. It has back what it asks for at the next rebalance if there is room, and else as soon as
// those who borrowed it have given it up, or were waited for in vain.
// Within a job the budget follows demand: max-min fair ("water filling") over what each process has
// allocated, so that a shell around a training program does not keep half of its memory.
//
// Handing budget from one process to another takes time (rebalance.h). A giver is waited for at most
// `patience_rounds`, for one that never gives must not starve the others; then end_round() names it.
//
// Who is there is in members.h; what a job could be promised in room.h; what idle memory is lent in
// lending.h; how grants follow in rebalance.h.
//
// Invariants: a rebalance grants no job more than its budget and its loan, and lets the sum of max(granted,
// held) grow past neither the job's budget nor the machine's; held is what a process still has of what it was
// granted before. A joining process may exceed the job's by at most `starting_bytes` until the others have
// given way, and the machine's by at most `minimum_bytes`.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "daemon/shares/members.h"
#include "daemon/shares/rebalance.h"
#include "daemon/shares/room.h"

namespace terrace::daemon {

class Arbiter {
 public:
  static constexpr std::uint64_t minimum_bytes = least_budget_bytes;
  static constexpr std::uint64_t starting_bytes = starting_budget_bytes;
  static constexpr unsigned patience_rounds = 600;  // a minute of the registry's rounds

  // Who takes longer to give once is lent no idle memory any more: else a borrower could let its lender wait
  // nearly that minute again and again.
  static constexpr unsigned slow_rounds = 100;

  explicit Arbiter(std::uint64_t machine_bytes) { members_.machine_bytes = machine_bytes; }

  // A new process. `requested_bytes` 0: whatever the job gets. Nothing when admitted.
  std::optional<Refusal> admit(SessionId session, const JobKey& job, std::uint64_t requested_bytes);
  // One that was in session with an earlier daemon, or says so. It runs already, so that refusing it would
  // only leave it uncounted; but nothing proves what it says, so that its job is promised no more than
  // admit() would promise it. When not even the minimum is left it shares, like a job without a promise. Its
  // own budget is what it held, within that. False: it was promised less than it says that it had.
  bool readmit(SessionId session, const JobKey& job, std::uint64_t requested_bytes, std::uint64_t held_bytes);
  void leave(SessionId session) { members_.leave(session); }

  void observe(SessionId session, const Demand& demand);
  // Some time has passed: once in a round of observations. Those that were told to give and have not for
  // longer than others can wait, each once: what they hold too much is counted no more.
  std::vector<SessionId> end_round();
  // Whether others wait for it to give: it still has more of what it was granted before than it is granted
  // now.
  bool is_waited_for(SessionId session) const;
  // A process whose reports cannot be believed is granted `starting_bytes` at most until they can again.
  void restrain(SessionId session, bool is_restrained);
  bool is_restrained(SessionId session) const;
  // Budgets that changed, givers first. Call after every admit, leave and setting, and now and then.
  std::vector<Change> rebalance();

  // Holds until the job ends. ENOENT: no such job. Only an administrator gets past the cap of the job's user.
  // No job is promised more than its limit.
  using By = Asker;
  using JobLimit = daemon::JobLimit;
  std::optional<Refusal> set_job_budget(const JobKey& job, std::uint64_t bytes, By by);
  // Promises and loans of the job together, until it ends; no_limit: none. What it was promised beyond that
  // is there for others at once. What an administrator says the job's user cannot change. EPERM, EINVAL,
  // EBUSY: it is paused. ENOENT: no such job.
  std::optional<Refusal> set_job_limit(const JobKey& job, std::uint64_t bytes, By by);
  // What the job was promised is there for others, but for the minimum of each of its processes, until
  // resume(). Whoever asks has yet to stop the job and may die before that: if he does not ask again within
  // `pausing_rounds`, the job has its budget back. With `stays` it is stopped. ENOENT: no such job.
  static constexpr unsigned pausing_rounds = 50;  // 5 s
  std::optional<Refusal> pause(const JobKey& job, bool stays);
  // ENOSPC: what it was promised is not left. Nothing happens to a job that is not paused.
  std::optional<Refusal> resume(const JobKey& job, By by);
  bool is_paused(const JobKey& job) const;
  void set_machine_budget(std::uint64_t bytes);
  // From now on; what is promised already stays.
  void set_users(UserShares users);
  // Of what the jobs of its user without a promise are lent, in proportion to others; from 1 to most_weight.
  // Holds until the job ends. ENOENT: no such job, EINVAL: no such weight.
  std::optional<Refusal> set_job_weight(const JobKey& job, std::uint64_t weight);

  std::uint64_t machine_bytes() const { return members_.machine_bytes; }
  // Promised to jobs that asked for a size.
  std::uint64_t promised_bytes() const { return members_.promised_bytes(); }
  std::uint64_t granted_bytes(SessionId session) const;
  // What it is granted, or still has of what it was granted before.
  std::uint64_t held_bytes(SessionId session) const;
  // The job's; none, where there is no such job.
  std::span<const SessionId> sessions_of(const JobKey& job) const;
  std::uint64_t job_budget_bytes(const JobKey& job) const;
  std::uint64_t job_promised_bytes(const JobKey& job) const;
  std::uint32_t job_weight(const JobKey& job) const;  // 0: there is no such job
  // What set_job_weight() said: not what the settings say of its name. 0: nothing.
  std::uint32_t job_said_weight(const JobKey& job) const;
  JobLimit job_limit(const JobKey& job) const;
  // As of the last rebalance: what it may use beyond its budget because others do not, and what others may.
  struct JobLoan {
    std::uint64_t borrowed_bytes = 0;
    std::uint64_t lent_bytes = 0;
  };
  JobLoan job_loan(const JobKey& job) const;
  const UserShares& users() const { return members_.users; }

 private:
  std::uint64_t promised_before(const MemberJob& job) const;
  void end_pause(MemberJob& job, std::uint64_t promised_bytes);
  void end_old_pauses();

  Members members_;
};

}  // namespace terrace::daemon
