// Groups, users and jobs as parts of one amount, each with what is said of it (user_shares.h): DRAM, a GPU's
// memory, the bytes of a day. Pure arithmetic; whoever divides says which jobs there are and what they hold.
//
//   whole ── group, or a user in none ── user ── job
//
// What cannot be called back in time (bytes that were written, a GPU's memory that kernels use) must not be
// lent while it is guaranteed to somebody who is not there: keep_guarantees() leaves it with nobody.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "daemon/shares/parts.h"
#include "daemon/shares/user_shares.h"

namespace terrace::daemon {

class ShareTree {
 public:
  // `users` outlives the tree.
  explicit ShareTree(const UserShares& users) : users_(users) {}

  // A job of the user that is there. `holding.least` is what it is guaranteed by name.
  void add(std::uint32_t uid, const Holding& holding);
  // What the user holds beside the jobs that are there: of that nothing moves.
  void add_rest(std::uint32_t uid, std::uint64_t bytes);
  // To be called when all are added. What is guaranteed to users, groups and jobs by name, and could not go
  // to those that are there, is lent to nobody.
  void keep_guarantees();

  // Out of `whole` less what all hold, what each job is lent, in the order in which they were added. Once.
  std::vector<std::uint64_t> lend(std::uint64_t whole);

 private:
  struct Place {
    std::size_t top = 0, user = 0, job = 0;
  };

  Part& user_part(std::uint32_t uid, bool has_jobs);
  Place add_user(std::uint32_t uid);
  std::size_t add_top(const Holding& holding);
  std::size_t top_of(std::size_t group);

  const UserShares& users_;
  std::vector<Part> tops_;
  std::map<std::size_t, std::size_t> group_at_;
  std::map<std::uint32_t, Place> user_at_;
  std::map<std::uint32_t, std::uint64_t> named_;  // what jobs that are there are guaranteed by name
  std::set<std::uint32_t> have_jobs_;             // members of groups that say no weight
  std::map<std::size_t, std::uint32_t> weights_;  // of such groups
  std::vector<Place> places_;
};

}  // namespace terrace::daemon
