// See user_shares.h.
#include "daemon/shares/user_shares.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/base/size.h"

namespace terrace::daemon {

std::optional<Refusal> refuse_to_change(const JobLimit& limit, const JobKey& job, Asker by) {
  if (limit.bytes == no_limit || limit.by != Asker::administrator || by != Asker::owner) return std::nullopt;
  return Refusal{EPERM, 0,
                 fmt::format("an administrator limits the job \"{}\" to {}: ask one to change that", job.name,
                             format_size(limit.bytes))};
}

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
  share.guarantee_bytes = std::max(share.guarantee_bytes, jobs_.guaranteed_bytes(uid));
  if (caps_loans_ && share.limit_bytes == no_limit)
    share.limit_bytes = std::max(cap_bytes_, share.guarantee_bytes);
  if (uid == administrator) share.limit_bytes = no_limit;
  return share;
}

JobShare UserShares::of(const JobKey& job) const {
  JobShare share = jobs_.of(job);
  if (!share.limit_bytes) share.limit_bytes = job.uid == administrator ? no_limit : job_cap_bytes_;
  share.limit_bytes = job_limit(job).most_beside(share.limit_bytes);
  return share;
}

std::optional<Refusal> UserShares::set_job_limit(const JobKey& job, const JobLimit& limit) {
  if (auto refusal = refuse_to_change(job_limit(job), job, limit.by)) return refusal;
  if (limit.bytes == no_limit)
    job_limits_.erase(job);
  else
    job_limits_[job] = limit;
  return std::nullopt;
}

JobLimit UserShares::job_limit(const JobKey& job) const {
  const auto found = job_limits_.find(job);
  return found == job_limits_.end() ? JobLimit{} : found->second;
}

std::optional<std::uint64_t> UserShares::said_limit(const JobKey& job) const {
  const std::uint64_t most = job_limit(job).most_beside(jobs_.of(job).limit_bytes);
  return most == no_limit ? std::nullopt : std::optional(most);
}

UserShares UserShares::scaled(std::uint64_t whole, std::uint64_t new_whole) const {
  const auto scale = [&](std::uint64_t* bytes) { *bytes = scaled_bytes(*bytes, whole, new_whole); };
  UserShares other = *this;
  scale(&other.cap_bytes_);
  scale(&other.job_cap_bytes_);
  for (auto& [uid, share] : other.shares_) scale(&share.guarantee_bytes), scale(&share.limit_bytes);
  for (GroupShare& group : other.groups_) scale(&group.guarantee_bytes), scale(&group.limit_bytes);
  other.jobs_.scale(whole, new_whole);
  return other;
}

std::set<std::uint32_t> UserShares::guaranteed_users() const {
  std::set<std::uint32_t> all = jobs_.users();
  for (const auto& [uid, share] : shares_)
    if (share.guarantee_bytes != 0) all.insert(uid);
  return all;
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

// Jobs of his without a guarantee may have been promised what others of his are guaranteed.
std::uint64_t UserShares::missing_bytes(std::uint32_t uid, const JobKey& asking,
                                        const PromisedBytes& promised) const {
  const std::uint64_t to_jobs = jobs_.missing_bytes(uid, asking, promised.by_job);
  if (uid == asking.uid) return to_jobs;
  return std::max(to_jobs, minus(of(uid).guarantee_bytes, promised.to_user(uid)));
}

std::vector<std::uint64_t> UserShares::missing_by_group(const JobKey& asking,
                                                        const PromisedBytes& promised) const {
  std::vector<std::uint64_t> missing(groups_.size() + 1);
  for (const std::uint32_t uid : guaranteed_users())
    missing[group_of(uid).value_or(groups_.size())] += missing_bytes(uid, asking, promised);
  return missing;
}

std::vector<std::uint64_t> UserShares::promised_by_group(const PromisedBytes& promised) const {
  std::vector<std::uint64_t> sums(groups_.size() + 1);
  for (const auto& [uid, bytes] : promised.by_user) sums[group_of(uid).value_or(groups_.size())] += bytes;
  return sums;
}

std::uint64_t UserShares::group_room(const JobKey& asking, const PromisedBytes& promised) const {
  const auto own = group_of(asking.uid);
  if (!own || groups_[*own].limit_bytes == no_limit) return no_limit;
  return minus(groups_[*own].limit_bytes,
               promised_by_group(promised)[*own] + missing_by_group(asking, promised)[*own]);
}

// Of his own group's guarantee he may have what the other members are not guaranteed themselves.
std::uint64_t UserShares::kept_from(const JobKey& asking, const PromisedBytes& promised) const {
  const auto own = group_of(asking.uid);
  const std::vector<std::uint64_t> missing = missing_by_group(asking, promised);
  const std::vector<std::uint64_t> has = promised_by_group(promised);
  std::uint64_t sum = missing.back();
  for (std::size_t i = 0; i < groups_.size(); ++i)
    sum += own == i ? missing[i] : std::max(missing[i], minus(groups_[i].guarantee_bytes, has[i]));
  return sum;
}

}  // namespace terrace::daemon
