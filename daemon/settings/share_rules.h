// What `[[share]]`, `[[group]]` and `[[job]]` in terraced.toml say of users, groups and jobs, and of whom
// that is, by the system's databases.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/shares/user_shares.h"
#include "liballoc/wire/amount.h"

namespace terrace::daemon {

// Of one user, or of each member of a group; exactly one is named. Amounts are of [budget] dram.
struct ShareRule {
  std::string user;  // a name or a number
  std::string group;
  std::uint32_t weight = 1;
  std::optional<wire::Amount> guarantee;  // of users only
  std::optional<wire::Amount> limit;
  unsigned line = 0;  // in the file

  friend bool operator==(const ShareRule&, const ShareRule&) = default;
};

// Of all members of a group together.
struct GroupRule {
  std::string name;
  std::optional<std::uint32_t> weight;  // nothing: as much as the members who are there weigh together
  std::optional<wire::Amount> guarantee;
  std::optional<wire::Amount> limit;
  unsigned line = 0;  // in the file

  friend bool operator==(const GroupRule&, const GroupRule&) = default;
};

// The same of each of their jobs whose name is as the pattern says, and not of all of them together. The
// weight is among the user's jobs; a guarantee is of one name and user only.
struct JobRule : ShareRule {
  std::string name;  // "*" in it is any text

  friend bool operator==(const JobRule&, const JobRule&) = default;
};

struct SharesResult {
  UserShares shares;  // without the cap for all
  std::string error;  // "" or what is wrong, and the remedy
};

// What the rules give each user, group and job of `budget_bytes`. What is said of a user goes before what is
// said of his groups, and of those the first rule counts; of [[group]]s he is in the first that has him as a
// member. Of a job's rules the first counts. A member is who the group database lists, and who has it as his
// first group; both are read once, now. Rules that contradict each other are an error. Reads the databases,
// so it may take as long as these do.
SharesResult resolve_shares(const std::vector<ShareRule>& rules, const std::vector<GroupRule>& groups,
                            const std::vector<JobRule>& jobs, std::uint64_t budget_bytes);

}  // namespace terrace::daemon
