// Who may write how much of a day's bytes to the drive behind the pool. Pure: no clock, no I/O.
//
//   the day's bytes ── group, or a user in none ── user ── job (uid, name) ── session (a process of the job)
//
// What was written cannot be taken back, so that nothing is written that was not leased before: a session is
// told how far its count of written bytes may go, and that only ever rises. A lease is charged when it is
// given. What is left of it is given back when the session ends; what a daemon leased that was killed stays
// charged. So the count may be too high, never too low, by what the sessions were leased and have not
// written.
//
// What is left is divided as DRAM is (shares/share_tree.h): among the groups and users who have sessions,
// whoever wrote least today for his weight first, and by each of them to his jobs, by theirs. A user is
// leased at most his cap, and no user, group or job more than its limit. What is guaranteed to users, groups
// and jobs that are not there is leased to nobody else: it would not come back that day. A lease is at most
// half of what there is for a session, so that leases get smaller as the day's bytes run out, and no process
// holds much that another one of its user needs.
//
// A job that ends and comes back on the same day is charged what it was, if anything is said of it by name;
// the daemon's record knows users only, so that its next start forgets that.
//
// What a session reports moves nothing but its own leases: of a report beyond its lease no more counts than
// the lease, and one that goes back is ignored.
//
// Invariant: what users were charged with sums up to at most the limit, unless the limit was lowered.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "daemon/shares/arbiter.h"
#include "daemon/shares/user_shares.h"
#include "tiers/records/endurance.h"

namespace terrace::daemon {

// How far a session's count of written bytes may go.
struct WriteLease {
  SessionId session = 0;
  std::uint64_t most_written_bytes = 0;
  bool is_last = false;  // there is no more today
  friend bool operator==(const WriteLease&, const WriteLease&) = default;
};

class WriteShares {
 public:
  static constexpr std::uint64_t first_bytes = 256ULL << 20;  // of who has written nothing yet
  static constexpr std::uint64_t step_bytes = 4ULL << 30;     // a second of a fast drive
  static constexpr std::uint64_t least_bytes = 16ULL << 20;
  static constexpr std::uint64_t none_bytes = 2ULL << 20;  // no run fits into less

  using WeightOf = std::function<std::uint32_t(const JobKey&)>;

  // Of a day. no_limit: all is counted and none refused.
  void set_limit(std::uint64_t bytes);
  // Weights, guarantees, limits and the cap for all users, of bytes written in a day.
  void set_users(UserShares users);
  const UserShares& users() const { return users_; }
  // What the job writes in a day at most, while it runs; no_limit: nothing is said. What its processes were
  // leased already stays theirs. EPERM: an administrator set another; EINVAL: there is no whole of a day that
  // it could be a part of.
  std::optional<Refusal> set_job_limit(const JobKey& job, const JobLimit& limit);
  void forget_job(const JobKey& job) { users_.forget_job(job); }
  std::uint64_t limit_bytes() const { return limit_bytes_; }

  // `has_lease`: it obeys one of an earlier daemon. Then its first report says where its count stands, and
  // nothing is leased before; else that is at 0.
  void join(SessionId session, const JobKey& job, bool has_lease = false);
  void observe(SessionId session, std::uint64_t written_bytes);
  // What it was leased and has not written, which its user is to be given back.
  std::uint64_t leave(SessionId session);
  // What the drive took beyond all reports, whoever wrote it: counts like one more user's bytes.
  void set_unreported(std::uint64_t bytes) { unreported_bytes_ = bytes; }
  // By all sessions, as counts.
  std::uint64_t reported_bytes() const { return reported_bytes_; }

  // Whether lease() would have something to do. Looks at the sessions only after something has changed.
  bool is_due(std::uint64_t day);
  // Leases what is due and charges it. On another day than before, what was leased and is not written counts
  // as that day's. What changed.
  std::vector<WriteLease> lease(const WeightOf& weight_of, records::Endurance* written);

  // What there still was for a job at the last division, without what its processes were leased; no_limit.
  std::uint64_t left_bytes(const JobKey& job) const;
  // What a job that runs was charged with today.
  std::uint64_t charged_bytes(const JobKey& job) const;
  // What nobody was charged with; no_limit.
  std::uint64_t left_bytes(const records::Endurance& written) const;
  // Leased and not written yet: by one session, and by all.
  std::uint64_t ahead_bytes(SessionId session) const;
  std::uint64_t ahead_bytes() const;

 private:
  struct Session {
    JobKey job;
    bool is_known = true;             // where its count stands
    std::uint64_t written_bytes = 0;  // as counts: at most `most_bytes`
    std::uint64_t most_bytes = 0;
    bool has_written = false;
    bool is_last = false;
    bool is_told = false;    // how things stand
    bool has_lease = false;  // that it obeys
    std::uint64_t ahead_bytes() const { return most_bytes - written_bytes; }
  };
  struct Job {
    std::uint64_t charged_bytes = 0;  // today, while it runs
    std::uint64_t room_bytes = 0;     // that it may be leased beyond that
    std::size_t sessions = 0;
  };

  std::uint64_t counted_bytes(const records::Endurance& written) const;
  bool wants_lease(const Session& session) const;
  std::uint64_t step_of(const Session& session) const;
  void begin_day(records::Endurance* written);
  void remember_charge(const JobKey& job, std::uint64_t bytes);
  void divide(const WeightOf& weight_of, const records::Endurance& written);
  bool lease_to(Session& session, records::Endurance* written);

  std::uint64_t limit_bytes_ = no_limit;
  std::uint64_t unreported_bytes_ = 0;
  std::uint64_t reported_bytes_ = 0;
  std::uint64_t day_ = 0;
  bool may_be_due_ = true;  // false: no session wants a lease
  UserShares users_;
  std::map<SessionId, Session> sessions_;
  std::map<JobKey, Job> jobs_;
  static constexpr std::size_t most_past_jobs = 4096;
  std::map<JobKey, std::uint64_t> past_;  // today's charges of jobs that ended and have a rule
};

}  // namespace terrace::daemon
