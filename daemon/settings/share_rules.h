// What `[[share]]`, `[[group]]` and `[[job]]` in terraced.toml say of users, groups and jobs, and of whom
// that is, by the system's databases.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/shares/user_shares.h"
#include "liballoc/wire/amount.h"

namespace terrace::daemon {

// What is divided by such rules. Of a GPU's memory and what is said of it, each device has its own.
enum class Resource { dram, pool, writes, gpu };

// Of one of them.
struct Bounds {
  std::optional<wire::Amount> guarantee;
  std::optional<wire::Amount> limit;
  bool is_said() const { return guarantee || limit; }

  friend bool operator==(const Bounds&, const Bounds&) = default;
};

// Of one user, or of each member of a group; exactly one is named. `guarantee` and `limit` are of [budget]
// dram, the others of what their names say. The weight is for all.
struct ShareRule {
  std::string user;  // a name or a number
  std::string group;
  std::uint32_t weight = 1;
  std::optional<wire::Amount> guarantee;  // of users only
  std::optional<wire::Amount> limit;
  unsigned line = 0;  // in the file
  Bounds pool, writes, gpu;

  friend bool operator==(const ShareRule&, const ShareRule&) = default;
};

// Of all members of a group together.
struct GroupRule {
  std::string name;
  std::optional<std::uint32_t> weight;  // nothing: as much as the members who are there weigh together
  std::optional<wire::Amount> guarantee;
  std::optional<wire::Amount> limit;
  unsigned line = 0;  // in the file
  Bounds pool, writes, gpu;

  friend bool operator==(const GroupRule&, const GroupRule&) = default;
};

// The same of each of their jobs whose name is as the pattern says, and not of all of them together. The
// weight is among the user's jobs; a guarantee is of one name and user only.
struct JobRule : ShareRule {
  std::string name;  // "*" in it is any text

  friend bool operator==(const JobRule&, const JobRule&) = default;
};

// What a rule says of a resource.
template <class Rule>
Bounds bounds_of(const Rule& rule, Resource resource) {
  switch (resource) {
    case Resource::dram:
      break;
    case Resource::pool:
      return rule.pool;
    case Resource::writes:
      return rule.writes;
    case Resource::gpu:
      return rule.gpu;
  }
  return {rule.guarantee, rule.limit};
}

// "guarantee", "pool_guarantee", "writes_limit", …: the keys of a resource.
std::string key_of(Resource resource, std::string_view what);
// "[[share]] of line 7", …: how messages call a rule.
std::string line_of(const ShareRule& rule);
std::string line_of(const GroupRule& rule);
std::string line_of(const JobRule& rule);

struct SharesResult {
  UserShares shares;  // without the cap for all
  std::string error;  // "" or what is wrong, and the remedy
};

// What the rules give each user, group and job of `whole_bytes` of a resource. What is said of a user goes
// before what is said of his groups, and of those the first rule counts; of [[group]]s he is in the first
// that has him as a member. Of a job's rules the first counts. A member is who the group database lists, and
// who has it as his first group; both are read once, now. Rules that contradict each other are an error.
// Reads the databases, so it may take as long as these do.
SharesResult resolve_shares(const std::vector<ShareRule>& rules, const std::vector<GroupRule>& groups,
                            const std::vector<JobRule>& jobs, std::uint64_t whole_bytes,
                            Resource resource = Resource::dram);

}  // namespace terrace::daemon
