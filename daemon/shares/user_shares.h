// What the administrator says that users, groups of users and jobs may have of the machine's memory. Pure.
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
// first between groups and users outside groups, then between the members of each group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "liballoc/wire/protocol.h"

namespace terrace::daemon {

inline constexpr std::uint64_t no_limit = ~std::uint64_t{0};
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

// What jobs are promised, by their user.
using PromisedBytes = std::map<std::uint32_t, std::uint64_t>;

class UserShares {
 public:
  // The most that one user's jobs are promised in all, where nothing else is said of him.
  void set_cap(std::uint64_t bytes) { cap_bytes_ = bytes; }
  // The most that one job has, promised or lent.
  void set_job_cap(std::uint64_t bytes) { job_cap_bytes_ = bytes; }
  // Whether what jobs do not use is lent to others.
  void set_lends_idle(bool lends) { lends_idle_ = lends; }
  void set(std::uint32_t uid, const UserShare& share) { shares_[uid] = share; }
  // Who of `members` is in a group already stays there.
  void add_group(GroupShare share, const std::set<std::uint32_t>& members);

  UserShare of(std::uint32_t uid) const;
  // The same weights, for another thing that is divided: guarantees and limits are amounts of memory, and
  // groups have parts of memory only.
  UserShares weights() const;
  // The most that the user's jobs are promised in all.
  std::uint64_t cap_of(std::uint32_t uid) const;
  std::uint64_t job_cap_of(std::uint32_t uid) const {
    return uid == administrator ? no_limit : job_cap_bytes_;
  }
  bool has_limit(std::uint32_t uid) const { return of(uid).limit_bytes != no_limit; }
  bool lends_idle() const { return lends_idle_; }

  const std::vector<GroupShare>& groups() const { return groups_; }
  // Which of groups() the user is in.
  std::optional<std::size_t> group_of(std::uint32_t uid) const;
  // What the members of his group, he among them, have yet to be promised until its limit; `promised` without
  // the job that asks. Of it stays what is guaranteed to other members. no_limit for who is in none.
  std::uint64_t group_room(std::uint32_t uid, const PromisedBytes& promised) const;
  // What must stay for others than `uid` beyond what they were promised already.
  std::uint64_t kept_from(std::uint32_t uid, const PromisedBytes& promised) const;

 private:
  static constexpr std::uint32_t administrator = 0;

  // What users other than `uid` have yet to be promised until their guarantees, by group; last: of those in
  // none.
  std::vector<std::uint64_t> missing_by_group(std::uint32_t uid, const PromisedBytes& promised) const;
  std::vector<std::uint64_t> promised_by_group(const PromisedBytes& promised) const;

  std::uint64_t cap_bytes_ = no_limit;
  std::uint64_t job_cap_bytes_ = no_limit;
  bool lends_idle_ = true;
  std::map<std::uint32_t, UserShare> shares_;
  std::vector<GroupShare> groups_;
  std::map<std::uint32_t, std::size_t> group_of_;
};

}  // namespace terrace::daemon
