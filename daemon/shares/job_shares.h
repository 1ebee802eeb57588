// What the administrator says of single jobs, which are found by user and name. Pure; one thread at a time.
//
// A job chooses its own name. So a rule is about the jobs of certain users, and what it gives is a part of
// what these users have (user_shares.h): a name that is made up moves memory between the jobs of one user and
// takes none from another one.
//
//   weight      among the jobs of its user, until the user says another one for it
//   guarantee   is promised to no other job, of its user neither; a part of the user's guarantee
//   limit       promises and loans of each job; the user's own limit counts as well
//
// A job has the first rule that holds for it. A guarantee is given to a job of one user under one name, for
// nothing else says how many jobs have it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/shares/job_key.h"

namespace terrace::daemon {

// Whether `name` is as the pattern says: "*" stands for any text, everything else for itself. Takes time in
// proportion to the product of both lengths at most.
bool matches(std::string_view pattern, std::string_view name);
// Whether the pattern is one name.
bool is_one_name(std::string_view pattern);

struct JobShare {
  std::uint32_t weight = 1;
  std::uint64_t guarantee_bytes = 0;
  std::optional<std::uint64_t> limit_bytes = {};  // nothing: what all jobs have at most

  friend bool operator==(const JobShare&, const JobShare&) = default;
};

// What jobs that have a guarantee are promised.
using JobPromises = std::map<JobKey, std::uint64_t>;

// The part of `new_whole` that `bytes` are of `whole`, which is above 0. What has no limit has none.
std::uint64_t scaled_bytes(std::uint64_t bytes, std::uint64_t whole, std::uint64_t new_whole);

class JobShares {
 public:
  // A guarantee counts only with one user and one name.
  void add(std::set<std::uint32_t> users, std::string pattern, const JobShare& share);

  // Every amount becomes the same part of another whole.
  void scale(std::uint64_t whole, std::uint64_t new_whole);

  JobShare of(const JobKey& job) const;
  // The number of the rule that holds, in the order in which they were added.
  std::optional<std::size_t> rule_of(const JobKey& job) const;
  bool guarantees(const JobKey& job) const { return guaranteed_.contains(job); }
  std::set<std::uint32_t> users() const;  // who has jobs with a guarantee
  // To all jobs of the user together.
  std::uint64_t guaranteed_bytes(std::uint32_t uid) const;
  // What the user's jobs, but for `asking`, have yet to be promised until their guarantees.
  std::uint64_t missing_bytes(std::uint32_t uid, const JobKey& asking, const JobPromises& promised) const;

 private:
  struct Rule {
    std::set<std::uint32_t> users;
    std::string pattern;
    JobShare share;
  };

  std::vector<Rule> rules_;
  std::map<JobKey, std::uint64_t> guaranteed_;
};

}  // namespace terrace::daemon
