// See job_shares.h.
#include "daemon/shares/job_shares.h"

#include <utility>

#include "daemon/base/size.h"

namespace terrace::daemon {

__extension__ using WideBytes = unsigned __int128;

std::uint64_t scaled_bytes(std::uint64_t bytes, std::uint64_t whole, std::uint64_t new_whole) {
  if (bytes == ~std::uint64_t{0}) return bytes;
  return static_cast<std::uint64_t>(static_cast<WideBytes>(bytes) * new_whole / whole);
}

// After a mismatch the last "*" takes one character more: an earlier one need not, since whatever it could
// take the last one can.
bool matches(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0, taken_until = 0;
  std::optional<std::size_t> star;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken_until = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p, ++n;
    } else if (star) {
      p = *star + 1;
      n = ++taken_until;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

bool is_one_name(std::string_view pattern) { return pattern.find('*') == std::string_view::npos; }

void JobShares::add(std::set<std::uint32_t> users, std::string pattern, const JobShare& share) {
  Rule rule{std::move(users), std::move(pattern), share};
  if (rule.users.size() != 1 || !is_one_name(rule.pattern)) rule.share.guarantee_bytes = 0;
  if (rule.share.guarantee_bytes != 0) {
    JobKey job{*rule.users.begin(), rule.pattern};
    if (!rule_of(job)) guaranteed_.emplace(std::move(job), rule.share.guarantee_bytes);
  }
  rules_.push_back(std::move(rule));
}

void JobShares::scale(std::uint64_t whole, std::uint64_t new_whole) {
  for (Rule& rule : rules_) {
    rule.share.guarantee_bytes = scaled_bytes(rule.share.guarantee_bytes, whole, new_whole);
    if (rule.share.limit_bytes)
      rule.share.limit_bytes = scaled_bytes(*rule.share.limit_bytes, whole, new_whole);
  }
  for (auto& [job, bytes] : guaranteed_) bytes = scaled_bytes(bytes, whole, new_whole);
}

std::optional<std::size_t> JobShares::rule_of(const JobKey& job) const {
  for (std::size_t i = 0; i < rules_.size(); ++i)
    if (rules_[i].users.contains(job.uid) && matches(rules_[i].pattern, job.name)) return i;
  return std::nullopt;
}

JobShare JobShares::of(const JobKey& job) const {
  const auto rule = rule_of(job);
  return rule ? rules_[*rule].share : JobShare{};
}

std::set<std::uint32_t> JobShares::users() const {
  std::set<std::uint32_t> all;
  for (const auto& [job, bytes] : guaranteed_) all.insert(job.uid);
  return all;
}

std::uint64_t JobShares::guaranteed_bytes(std::uint32_t uid) const { return missing_bytes(uid, {}, {}); }

std::uint64_t JobShares::missing_bytes(std::uint32_t uid, const JobKey& asking,
                                       const JobPromises& promised) const {
  std::uint64_t sum = 0;
  for (auto at = guaranteed_.lower_bound({uid, ""}); at != guaranteed_.end() && at->first.uid == uid; ++at) {
    if (at->first == asking) continue;
    const auto has = promised.find(at->first);
    sum += minus(at->second, has == promised.end() ? 0 : has->second);
  }
  return sum;
}

}  // namespace terrace::daemon
