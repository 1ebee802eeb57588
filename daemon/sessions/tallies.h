// What sessions did since the daemon began, of each job, of each user and of all: sums that never fall, for
// whoever draws rates from them.
//
// A process counts from its own start and takes its counters with it. Here only what is added is summed:
//
//   counter of a session   10 ── 25 ── 40 │ ends       another one   0 ── 5
//   its job's sum          10    25    40   40                      40   45
//
// so that neither an end nor a process that says less than before lowers a sum. A session that is back from
// an earlier daemon counts from what it says first: what it did before that daemon has told.
//
// Bounds: `most` jobs have a sum of their own, and as many users. All others have one together, into which
// goes what they do while they have none of their own, so that it does not fall when they get one. A user's
// job gets one while the user has fewer than are free: one user cannot use them up. An ended job keeps its
// sum for `keep_ns`, so that its last values are read; then another may have its place.
// Pure: no clock, no I/O.
#pragma once

#include <cstdint>
#include <map>

#include "daemon/sessions/session.h"
#include "daemon/shares/job_key.h"

namespace terrace::daemon {

struct Tally {
  Counters did{};  // what is no counter (wire::is_counter()), a holding or a peak means nothing here
  std::size_t sessions = 0;   // that run
  std::uint64_t idle_ns = 0;  // when the last one ended
};

class Tallies {
 public:
  static constexpr std::uint64_t keep_ns = 300'000'000'000;
  // More than any process can have done between two looks: who says so is not believed.
  static constexpr std::uint64_t implausible = std::uint64_t{1} << 48U;

  explicit Tallies(std::size_t most) : most_(most) {}

  // `is_back`: from a session with an earlier daemon.
  void join(SessionId session, const JobKey& job, bool is_back, std::uint64_t now_ns);
  // What its counters say now; nothing of a session that did not join.
  void observe(SessionId session, const Counters& counters);
  void leave(SessionId session, std::uint64_t now_ns);
  // Lets go of jobs and users that ended long ago.
  void forget_old(std::uint64_t now_ns);

  const std::map<JobKey, Tally>& jobs() const { return jobs_; }
  const std::map<std::uint32_t, Tally>& users() const { return users_; }
  const Tally& other_jobs() const { return other_jobs_; }
  const Tally& other_users() const { return other_users_; }
  const Counters& all() const { return all_; }
  bool is_apart(const JobKey& job) const { return jobs_.contains(job); }
  bool is_apart(std::uint32_t user) const { return users_.contains(user); }

 private:
  struct Member {
    JobKey job;
    Tally* of_job;   // of jobs_, where it stays while it has sessions, or other_jobs_
    Tally* of_user;  // likewise
    Counters last{};
    bool is_known = false;  // `last` was said
  };

  Tally& tally_of(const JobKey& job);
  Tally& tally_of(std::uint32_t user);

  std::size_t most_;
  std::map<JobKey, Tally> jobs_;
  std::map<std::uint32_t, Tally> users_;
  Tally other_jobs_, other_users_;
  Counters all_{};
  std::map<SessionId, Member> members_;
};

}  // namespace terrace::daemon
