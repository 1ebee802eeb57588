// Grants that follow what each job may use (lending.h).
//
// Handing budget from one process to another takes time: the giver has to evict first. So a rebalance lowers
// at once but raises only into room that is free by then, in the job and on the whole machine; what is
// missing is raised by later rebalances.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/shares/members.h"

namespace terrace::daemon {

struct Change {
  SessionId session = 0;
  std::uint64_t budget_bytes = 0;
  friend bool operator==(const Change&, const Change&) = default;
};

// Grants that changed, givers first. Jobs that are owed more stay unsettled.
std::vector<Change> rebalance(Members* members);

}  // namespace terrace::daemon
