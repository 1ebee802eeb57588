// See share_rules.h.
#include "daemon/settings/share_rules.h"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>

#include <charconv>
#include <set>
#include <string_view>

#include "daemon/size.h"
#include "liballoc/wire/size.h"

namespace terrace::daemon {
namespace {

// A number is one even where no user has it.
std::optional<uid_t> uid_of(const std::string& name) {
  uid_t number = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, failed] = std::from_chars(name.data(), end, number);
  if (failed == std::errc() && stop == end) return number;
  const passwd* const entry = ::getpwnam(name.c_str());
  return entry == nullptr ? std::nullopt : std::optional(entry->pw_uid);
}

// Nothing: there is no such group.
std::optional<std::set<uid_t>> members_of(const std::string& name) {
  const group* const found = ::getgrnam(name.c_str());
  if (found == nullptr) return std::nullopt;
  const gid_t gid = found->gr_gid;
  std::set<std::string> names;
  for (char** member = found->gr_mem; *member != nullptr; ++member) names.insert(*member);
  std::set<uid_t> members;
  ::setpwent();
  while (const passwd* entry = ::getpwent()) {
    if (entry->pw_gid == gid || names.erase(entry->pw_name) != 0) members.insert(entry->pw_uid);
  }
  ::endpwent();
  // Who is in a directory that does not list its users.
  for (const std::string& left : names) {
    if (const auto uid = uid_of(left)) members.insert(*uid);
  }
  return members;
}

std::string at(const ShareRule& rule, std::string_view what) {
  return fmt::format("[[share]] of line {}: {}", rule.line, what);
}

UserShare share_of(const ShareRule& rule, std::uint64_t budget) {
  return {.weight = rule.weight,
          .guarantee_bytes = rule.guarantee ? rule.guarantee->of(budget) : 0,
          .limit_bytes = rule.limit ? rule.limit->of(budget) : no_limit};
}

std::string wrong_amounts(const ShareRule& rule, const UserShare& share) {
  if (share.limit_bytes < wire::least_budget_bytes)
    return at(rule, fmt::format("no job can work in a limit of {}; give at least {}",
                                format_size(share.limit_bytes), format_size(wire::least_budget_bytes)));
  if (share.guarantee_bytes > share.limit_bytes)
    return at(rule, fmt::format("the guarantee of {} is more than the limit of {}; lower it, or raise that",
                                format_size(share.guarantee_bytes), format_size(share.limit_bytes)));
  return {};
}

}  // namespace

SharesResult resolve_shares(const std::vector<ShareRule>& rules, std::uint64_t budget_bytes) {
  SharesResult result;
  std::set<uid_t> named, in_group;
  std::uint64_t left = budget_bytes;
  const auto fail = [](std::string text) { return SharesResult{{}, std::move(text)}; };
  for (const ShareRule& rule : rules) {
    const UserShare share = share_of(rule, budget_bytes);
    if (std::string wrong = wrong_amounts(rule, share); !wrong.empty()) return fail(std::move(wrong));
    if (rule.user.empty()) continue;
    const auto uid = uid_of(rule.user);
    if (!uid) return fail(at(rule, fmt::format("the user \"{}\" is not known; correct the name", rule.user)));
    if (!named.insert(*uid).second)
      return fail(at(rule, fmt::format("the user \"{}\" has a share already; remove one", rule.user)));
    if (share.guarantee_bytes > left)
      return fail(
          at(rule, fmt::format("the guarantees up to here are {} more than the DRAM budget of {}; "
                               "lower them",
                               format_size(share.guarantee_bytes - left), format_size(budget_bytes))));
    left -= share.guarantee_bytes;
    result.shares.set(*uid, share);
  }
  for (const ShareRule& rule : rules) {
    if (rule.group.empty()) continue;
    const auto members = members_of(rule.group);
    if (!members)
      return fail(at(rule, fmt::format("the group \"{}\" is not known; correct the name", rule.group)));
    for (const uid_t uid : *members) {
      if (!named.contains(uid) && in_group.insert(uid).second)
        result.shares.set(uid, share_of(rule, budget_bytes));
    }
  }
  return result;
}

}  // namespace terrace::daemon
