// See user_shares.h.
#include "daemon/shares/user_shares.h"

#include <algorithm>
#include <utility>

#include "daemon/base/size.h"

namespace terrace::daemon {

void UserShares::add_group(GroupShare share, const std::set<std::uint32_t>& members) {
  const std::size_t index = groups_.size();
  groups_.push_back(std::move(share));
  for (const std::uint32_t uid : members) {
    if (uid != administrator) group_of_.emplace(uid, index);
  }
}

UserShare UserShares::of(std::uint32_t uid) const {
  const auto found = shares_.find(uid);
  UserShare share = found == shares_.end() ? UserShare{} : found->second;
  if (uid == administrator) share.limit_bytes = no_limit;
  return share;
}

UserShares UserShares::weights() const {
  UserShares only;
  for (const auto& [uid, share] : shares_) only.shares_[uid].weight = share.weight;
  return only;
}

std::uint64_t UserShares::cap_of(std::uint32_t uid) const {
  if (uid == administrator) return no_limit;
  const UserShare share = of(uid);
  return share.limit_bytes != no_limit ? share.limit_bytes : std::max(cap_bytes_, share.guarantee_bytes);
}

std::optional<std::size_t> UserShares::group_of(std::uint32_t uid) const {
  const auto found = group_of_.find(uid);
  return found == group_of_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::uint64_t> UserShares::missing_by_group(std::uint32_t uid,
                                                        const PromisedBytes& promised) const {
  std::vector<std::uint64_t> missing(groups_.size() + 1);
  for (const auto& [other, share] : shares_) {
    if (other == uid) continue;
    const auto has = promised.find(other);
    missing[group_of(other).value_or(groups_.size())] +=
        minus(share.guarantee_bytes, has == promised.end() ? 0 : has->second);
  }
  return missing;
}

std::vector<std::uint64_t> UserShares::promised_by_group(const PromisedBytes& promised) const {
  std::vector<std::uint64_t> sums(groups_.size() + 1);
  for (const auto& [uid, bytes] : promised) sums[group_of(uid).value_or(groups_.size())] += bytes;
  return sums;
}

std::uint64_t UserShares::group_room(std::uint32_t uid, const PromisedBytes& promised) const {
  const auto own = group_of(uid);
  if (!own || groups_[*own].limit_bytes == no_limit) return no_limit;
  return minus(groups_[*own].limit_bytes,
               promised_by_group(promised)[*own] + missing_by_group(uid, promised)[*own]);
}

// Of his own group's guarantee he may have what the other members are not guaranteed themselves.
std::uint64_t UserShares::kept_from(std::uint32_t uid, const PromisedBytes& promised) const {
  const auto own = group_of(uid);
  const std::vector<std::uint64_t> missing = missing_by_group(uid, promised);
  const std::vector<std::uint64_t> has = promised_by_group(promised);
  std::uint64_t sum = missing.back();
  for (std::size_t i = 0; i < groups_.size(); ++i)
    sum += own == i ? missing[i] : std::max(missing[i], minus(groups_[i].guarantee_bytes, has[i]));
  return sum;
}

}  // namespace terrace::daemon
