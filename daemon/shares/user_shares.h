// What the administrator says that users, groups of users and jobs may have of one thing: the machine's
// memory, a GPU's, the pool, the bytes written in a day. Pure.
//
//   weight      of what nobody is promised, in proportion to others
//   guarantee   is never promised to others; while its owner does not use it, others borrow it
//   limit       promises and loans together
//
// Who is not named has weight 1, no guarantee, and is promised at most the cap for all. User 0 is the
// administrator: neither a cap nor a limit binds him, he is in no group, but guarantees of others do bind
// him.
//
// A group's guarantee and limit hold for its members together. A user is in one group at most: divided is
// first between groups and users outside groups, then between the members of each group, then between the
// jobs of each user. What his jobs are guaranteed by name (job_shares.h) he is guaranteed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/shares/job_limit.h"
#include "daemon/shares/job_shares.h"
#include "liballoc/wire/protocol.h"

namespace terrace::daemon {

using wire::most_weight;

struct UserShare {
  std::uint32_t weight = 1;
  std::uint64_t guarantee_bytes = 0;
  std::uint64_t limit_bytes = no_limit;
};

// Of all members together.
struct GroupShare {
  std::string name = {};
  std::optional<std::uint32_t> weight = {};  // nothing: as much as the members who are there weigh together
  std::uint64_t guarantee_bytes = 0;
  std::uint64_t limit_bytes = no_limit;
};

// What jobs are promised.
struct PromisedBytes {
  std::map<std::uint32_t, std::uint64_t> by_user = {};
  JobPromises by_job = {};  // of those that have a guarantee

  void add(const JobKey& job, std::uint64_t bytes, const JobShares& jobs) {
    by_user[job.uid] += bytes;
    if (jobs.guarantees(job)) by_job[job] = bytes;
  }
  // What was added.
  void remove(const JobKey& job, std::uint64_t bytes) {
    by_user[job.uid] -= bytes;
    by_job.erase(job);
  }
  std::uint64_t to_user(std::uint32_t uid) const {
    const auto found = by_user.find(uid);
    return found == by_user.end() ? 0 : found->second;
  }
};

class UserShares {
 public:
  // The most that one user's jobs are promised in all, where nothing else is said of him.
  void set_cap(std::uint64_t bytes) { cap_bytes_ = bytes; }
  // The most that one job has, promised or lent.
  void set_job_cap(std::uint64_t bytes) { job_cap_bytes_ = bytes; }
  // The cap bounds what is lent as well: of what is promised to nobody.
  void set_caps_loans(bool caps) { caps_loans_ = caps; }
  // What is guaranteed to somebody who is not there is lent to nobody: of what comes back too late.
  void set_keeps_guarantees(bool keeps) { keeps_guarantees_ = keeps; }
  // Whether what jobs do not use is lent to others.
  void set_lends_idle(bool lends) { lends_idle_ = lends; }
  void set(std::uint32_t uid, const UserShare& share) { shares_[uid] = share; }
  // What is said of jobs by name.
  void set_jobs(JobShares jobs) { jobs_ = std::move(jobs); }
  // Who of `members` is in a group already stays there.
  void add_group(GroupShare share, const std::set<std::uint32_t>& members);

  // His guarantee is at least what his jobs are guaranteed by name.
  UserShare of(std::uint32_t uid) const;
  const JobShares& jobs() const { return jobs_; }
  // With the limit that holds for all where nothing is said of the job, and with what is said while it runs.
  JobShare of(const JobKey& job) const;
  // What is said of a job while it runs, until forget_job(). As Arbiter::set_job_limit(), whose own limits
  // are of DRAM: EPERM.
  std::optional<Refusal> set_job_limit(const JobKey& job, const JobLimit& limit);
  void forget_job(const JobKey& job) { job_limits_.erase(job); }
  JobLimit job_limit(const JobKey& job) const;
  // The same holds beside other settings.
  void keep_job_limits(const UserShares& before) { job_limits_ = before.job_limits_; }
  // By the settings and by what is said while it runs; nothing: neither says anything.
  std::optional<std::uint64_t> said_limit(const JobKey& job) const;
  // The same parts of another whole. What is said of running jobs are amounts, and stays.
  UserShares scaled(std::uint64_t whole, std::uint64_t new_whole) const;
  // The most that the user's jobs are promised in all.
  std::uint64_t cap_of(std::uint32_t uid) const;
  bool has_limit(std::uint32_t uid) const { return of(uid).limit_bytes != no_limit; }
  bool lends_idle() const { return lends_idle_; }
  bool keeps_guarantees() const { return keeps_guarantees_; }
  // Who is guaranteed something, himself or his jobs by name.
  std::set<std::uint32_t> guaranteed_users() const;

  const std::vector<GroupShare>& groups() const { return groups_; }
  // Which of groups() the user is in.
  std::optional<std::size_t> group_of(std::uint32_t uid) const;
  // What the members of the user's group, he among them, have yet to be promised until its limit. `promised`
  // is without the job that asks. Of the room stays what is guaranteed to other members and other jobs.
  // no_limit for a user in none.
  std::uint64_t group_room(const JobKey& asking, const PromisedBytes& promised) const;
  // What must stay for other users and other jobs than `asking` beyond what they were promised already.
  std::uint64_t kept_from(const JobKey& asking, const PromisedBytes& promised) const;

 private:
  static constexpr std::uint32_t administrator = 0;

  // What the user has yet to be promised until his guarantee; if it is his job that asks, what his others
  // have until theirs.
  std::uint64_t missing_bytes(std::uint32_t uid, const JobKey& asking, const PromisedBytes& promised) const;
  // The same of all users, by group; last: of those in none.
  std::vector<std::uint64_t> missing_by_group(const JobKey& asking, const PromisedBytes& promised) const;
  std::vector<std::uint64_t> promised_by_group(const PromisedBytes& promised) const;

  std::uint64_t cap_bytes_ = no_limit;
  std::uint64_t job_cap_bytes_ = no_limit;
  bool lends_idle_ = true;
  bool caps_loans_ = false;
  bool keeps_guarantees_ = false;
  std::map<std::uint32_t, UserShare> shares_;
  JobShares jobs_;
  std::map<JobKey, JobLimit> job_limits_;
  std::vector<GroupShare> groups_;
  std::map<std::uint32_t, std::size_t> group_of_;
};

}  // namespace terrace::daemon
