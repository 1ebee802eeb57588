// See share_rules.h.
#include "daemon/settings/share_rules.h"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "daemon/base/size.h"
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

struct Whole {
  std::string_view prefix;    // of the keys
  std::string_view name;      // of all that there is
  std::uint64_t least_bytes;  // of a limit with which a job can do something
};

// In the order of Resource.
constexpr Whole wholes[] = {{"", "the DRAM budget", wire::least_budget_bytes},
                            {"pool_", "[pool] size,", wire::least_pool_bytes},
                            {"writes_", "[pool] writes_per_day,", wire::least_pool_bytes},
                            {"gpu_", "[gpu] memory,", wire::least_budget_bytes}};

const Whole& whole_of(Resource resource) { return wholes[static_cast<std::size_t>(resource)]; }

template <class Rule>
std::string at(const Rule& rule, std::string_view what) {
  return fmt::format("{}: {}", line_of(rule), what);
}

struct Amounts {
  std::uint64_t guarantee = 0;
  std::uint64_t limit = no_limit;
};

// The rules one after the other, and what they have given away.
class Resolution {
 public:
  Resolution(std::uint64_t budget, Resource resource) : budget_(budget), resource_(resource) {}

  std::string give_user(const ShareRule& rule) {
    const Amounts amounts = amounts_of(rule);
    if (std::string wrong = wrong_amounts(rule, amounts); !wrong.empty()) return wrong;
    if (rule.user.empty()) return {};
    const auto uid = uid_of(rule.user);
    if (!uid) return at(rule, fmt::format("the user \"{}\" is not known; correct the name", rule.user));
    if (guarantees_.contains(*uid))
      return at(rule, fmt::format("the user \"{}\" has a share already; remove one", rule.user));
    guarantees_[*uid] = amounts.guarantee;
    shares_.set(*uid, {rule.weight, amounts.guarantee, amounts.limit});
    return take(rule, amounts.guarantee);
  }

  std::string give_members(const ShareRule& rule) {
    if (rule.group.empty()) return {};
    const auto members = members_of(rule.group);
    if (!members) return at(rule, fmt::format("the group \"{}\" is not known; correct the name", rule.group));
    const Amounts amounts = amounts_of(rule);
    for (const uid_t uid : *members) {
      if (!guarantees_.contains(uid) && in_share_.insert(uid).second)
        shares_.set(uid, {rule.weight, 0, amounts.limit});
    }
    return {};
  }

  std::string give_jobs(const JobRule& rule) {
    const Amounts amounts = amounts_of(rule);
    if (std::string wrong = wrong_amounts(rule, amounts); !wrong.empty()) return wrong;
    std::set<uid_t> users;
    if (std::string unknown = find_users(rule, &users); !unknown.empty()) return unknown;
    if (std::string wrong = rule.user.empty() ? "" : never_holds(rule, *users.begin()); !wrong.empty())
      return wrong;
    const std::uint64_t before = rule.user.empty() ? 0 : guaranteed_to(*users.begin());
    job_lines_.push_back(rule.line);
    jobs_.add(
        users, rule.name,
        {rule.weight, amounts.guarantee,
         bounds_of(rule, resource_).limit ? std::optional(amounts.limit) : std::optional<std::uint64_t>()});
    return amounts.guarantee == 0 ? std::string() : take_for_job(rule, *users.begin(), before);
  }

  std::string give_group(const GroupRule& rule) {
    const Amounts amounts = amounts_of(rule);
    if (std::string wrong = wrong_amounts(rule, amounts); !wrong.empty()) return wrong;
    const auto all = members_of(rule.name);
    if (!all) return at(rule, fmt::format("the group \"{}\" is not known; correct the name", rule.name));
    if (!names_.insert(rule.name).second)
      return at(rule, fmt::format("the group \"{}\" is there already; remove one", rule.name));
    std::uint64_t theirs = 0;
    std::set<std::uint32_t> members;
    for (const uid_t uid : *all) {
      if (uid == 0 || !in_group_.insert(uid).second) continue;
      members.insert(uid);
      theirs += guaranteed_to(uid);
    }
    if (std::string wrong = contradiction(rule, amounts, members.size(), theirs); !wrong.empty())
      return wrong;
    shares_.add_group({rule.name, rule.weight, amounts.guarantee, amounts.limit}, members);
    return take(rule, minus(amounts.guarantee, theirs));
  }

  UserShares shares() {
    shares_.set_jobs(std::move(jobs_));
    return std::move(shares_);
  }

 private:
  template <class Rule>
  Amounts amounts_of(const Rule& rule) const {
    const Bounds said = bounds_of(rule, resource_);
    return {said.guarantee ? said.guarantee->of(budget_) : 0,
            said.limit ? said.limit->of(budget_) : no_limit};
  }
  std::string key(std::string_view what) const { return key_of(resource_, what); }

  template <class Rule>
  std::string wrong_amounts(const Rule& rule, const Amounts& amounts) const {
    const std::uint64_t least = whole_of(resource_).least_bytes;
    if (amounts.limit < least)
      return at(rule, fmt::format("no job can work in a {} of {}; give at least {}", key("limit"),
                                  format_size(amounts.limit), format_size(least)));
    if (amounts.guarantee > amounts.limit)
      return at(rule,
                fmt::format("the {} of {} is more than the {} of {}; lower the first, or raise the second",
                            key("guarantee"), format_size(amounts.guarantee), key("limit"),
                            format_size(amounts.limit)));
    return {};
  }

  // root is no member of a group here either.
  static std::string find_users(const JobRule& rule, std::set<uid_t>* users) {
    if (!rule.user.empty()) {
      const auto uid = uid_of(rule.user);
      if (!uid) return at(rule, fmt::format("the user \"{}\" is not known; correct the name", rule.user));
      users->insert(*uid);
      return {};
    }
    const auto members = members_of(rule.group);
    if (!members) return at(rule, fmt::format("the group \"{}\" is not known; correct the name", rule.group));
    *users = *members;
    users->erase(0);
    return {};
  }
  // A job of one name that has a rule already.
  std::string never_holds(const JobRule& rule, uid_t uid) const {
    const auto earlier = is_one_name(rule.name) ? jobs_.rule_of({uid, rule.name}) : std::nullopt;
    if (!earlier) return {};
    return at(rule, fmt::format("the [[job]] of line {} covers the job \"{}\" of \"{}\" already; move this "
                                "[[job]] before that one, or remove one of the two",
                                job_lines_[*earlier], rule.name, rule.user));
  }
  // What jobs are guaranteed by name is a part of what their user is; who has no guarantee has that one then.
  // `before`: what he was guaranteed before this rule.
  std::string take_for_job(const JobRule& rule, uid_t uid, std::uint64_t before) {
    const std::uint64_t jobs = jobs_.guaranteed_bytes(uid);
    const auto own = guarantees_.find(uid);
    if (own != guarantees_.end() && own->second != 0 && jobs > own->second)
      return at(rule, fmt::format("jobs of \"{}\" are guaranteed {} by name, more than the {} of {} for "
                                  "all of them in [[share]]; raise that, or lower theirs",
                                  rule.user, format_size(jobs), key("guarantee"), format_size(own->second)));
    if (const std::uint64_t limit = shares_.of(uid).limit_bytes; jobs > limit)
      return at(rule, fmt::format("jobs of \"{}\" are guaranteed {} by name, more than the {} of {} for all "
                                  "of them in [[share]]; raise that, or lower theirs",
                                  rule.user, format_size(jobs), key("limit"), format_size(limit)));
    return take(rule, guaranteed_to(uid) - before);
  }
  std::uint64_t guaranteed_to(uid_t uid) const {
    const auto own = guarantees_.find(uid);
    return std::max(own == guarantees_.end() ? 0 : own->second, jobs_.guaranteed_bytes(uid));
  }
  // `theirs`: what its members are guaranteed by name.
  std::string contradiction(const GroupRule& rule, const Amounts& amounts, std::size_t members,
                            std::uint64_t theirs) const {
    if (members == 0 && amounts.guarantee != 0)
      return at(
          rule,
          fmt::format("nobody gets this guarantee: every member of \"{}\" is root or in a [[group]] further "
                      "up, or the group has no members; remove the guarantee, or move this [[group]] up",
                      rule.name));
    if (amounts.guarantee != 0 && theirs > amounts.guarantee)
      return at(rule, fmt::format("members are guaranteed {} by name, more than the {} of {} for all; "
                                  "raise this, or lower theirs",
                                  format_size(theirs), key("guarantee"), format_size(amounts.guarantee)));
    if (theirs > amounts.limit)
      return at(rule, fmt::format("members are guaranteed {} by name, more than the {} of {} for all; "
                                  "raise this, or lower theirs",
                                  format_size(theirs), key("limit"), format_size(amounts.limit)));
    return {};
  }

  // Of the budget: all guarantees hold at once.
  template <class Rule>
  std::string take(const Rule& rule, std::uint64_t bytes) {
    taken_ += bytes;
    if (taken_ <= budget_) return {};
    return at(rule,
              fmt::format("the {}s up to here are {} more than {} of {}; lower them", key("guarantee"),
                          format_size(taken_ - budget_), whole_of(resource_).name, format_size(budget_)));
  }

  std::uint64_t budget_;
  Resource resource_;
  std::uint64_t taken_ = 0;
  std::map<uid_t, std::uint64_t> guarantees_;  // of those who are named
  std::vector<unsigned> job_lines_;            // of the rules of jobs
  JobShares jobs_;
  std::set<uid_t> in_share_, in_group_;
  std::set<std::string> names_;
  UserShares shares_;
};

}  // namespace

std::string key_of(Resource resource, std::string_view what) {
  return fmt::format("{}{}", whole_of(resource).prefix, what);
}

std::string line_of(const ShareRule& rule) { return fmt::format("[[share]] of line {}", rule.line); }
std::string line_of(const GroupRule& rule) { return fmt::format("[[group]] of line {}", rule.line); }
std::string line_of(const JobRule& rule) { return fmt::format("[[job]] of line {}", rule.line); }

SharesResult resolve_shares(const std::vector<ShareRule>& rules, const std::vector<GroupRule>& groups,
                            const std::vector<JobRule>& jobs, std::uint64_t whole_bytes, Resource resource) {
  Resolution resolution(whole_bytes, resource);
  std::string error;
  for (const ShareRule& rule : rules)
    if (error.empty()) error = resolution.give_user(rule);
  for (const ShareRule& rule : rules)
    if (error.empty()) error = resolution.give_members(rule);
  for (const JobRule& rule : jobs)
    if (error.empty()) error = resolution.give_jobs(rule);
  for (const GroupRule& rule : groups)
    if (error.empty()) error = resolution.give_group(rule);
  if (!error.empty()) return {{}, std::move(error)};
  return {resolution.shares(), {}};
}

}  // namespace terrace::daemon
