// What the administrator says that each user may have of the machine's memory. Pure.
//
//   weight      of what nobody is promised, in proportion to others
//   guarantee   is never promised to others; while its user does not use it, others borrow it
//   limit       promises and loans together
//
// Who is not named has weight 1, no guarantee, and is promised at most the cap for all. User 0 is the
// administrator: neither the cap nor a limit binds him, but guarantees of others do.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

#include "liballoc/wire/protocol.h"

namespace terrace::daemon {

inline constexpr std::uint64_t no_limit = ~std::uint64_t{0};
using wire::most_weight;

struct UserShare {
  std::uint32_t weight = 1;
  std::uint64_t guarantee_bytes = 0;
  std::uint64_t limit_bytes = no_limit;
};

class UserShares {
 public:
  // The most that one user's jobs are promised in all, where nothing else is said of him.
  void set_cap(std::uint64_t bytes) { cap_bytes_ = bytes; }
  void set(std::uint32_t uid, const UserShare& share) { shares_[uid] = share; }

  UserShare of(std::uint32_t uid) const {
    const auto found = shares_.find(uid);
    UserShare share = found == shares_.end() ? UserShare{} : found->second;
    if (uid == administrator) share.limit_bytes = no_limit;
    return share;
  }
  // The same weights, for another thing that is divided: guarantees and limits are amounts of memory.
  UserShares weights() const {
    UserShares only;
    for (const auto& [uid, share] : shares_) only.shares_[uid].weight = share.weight;
    return only;
  }
  // The most that the user's jobs are promised in all.
  std::uint64_t cap_of(std::uint32_t uid) const {
    if (uid == administrator) return no_limit;
    const UserShare share = of(uid);
    return share.limit_bytes != no_limit ? share.limit_bytes : std::max(cap_bytes_, share.guarantee_bytes);
  }
  bool has_limit(std::uint32_t uid) const { return of(uid).limit_bytes != no_limit; }
  // What must stay for others than `uid` beyond what they were promised already (`promised`, by user).
  std::uint64_t kept_from(std::uint32_t uid, const std::map<std::uint32_t, std::uint64_t>& promised) const {
    std::uint64_t sum = 0;
    for (const auto& [other, share] : shares_) {
      const auto has = promised.find(other);
      const std::uint64_t bytes = has == promised.end() ? 0 : has->second;
      if (other != uid && share.guarantee_bytes > bytes) sum += share.guarantee_bytes - bytes;
    }
    return sum;
  }

 private:
  static constexpr std::uint32_t administrator = 0;

  std::uint64_t cap_bytes_ = no_limit;
  std::map<std::uint32_t, UserShare> shares_;
};

}  // namespace terrace::daemon
