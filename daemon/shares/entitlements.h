// How the machine's memory is divided among jobs. Pure: the arbiter says what jobs there are.
//
//   machine ── group, or a user in none ── user ── job
//
// Twice. First everybody's due: what a job was promised, and for a job without a promise its part of what
// nobody was promised. Then what jobs do not use of that is lent, to jobs that were promised nothing and
// would use more: by the same rule, within the same limits. Who has use for its due keeps it.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/shares/user_shares.h"

namespace terrace::daemon {

struct JobPart {
  std::uint32_t uid = 0;
  std::uint32_t weight = 1;          // among its user's
  std::uint64_t promised_bytes = 0;  // 0: it shares what is left
  std::uint64_t guarantee_bytes = 0;
  std::uint64_t limit_bytes = no_limit;
};

// Each job's due, in the order of `jobs`; `start_bytes` is what one without a promise has in any case. The
// dues sum to at most `machine_bytes`, unless the promises and starts are more.
std::vector<std::uint64_t> dues(std::uint64_t machine_bytes, std::uint64_t start_bytes,
                                const UserShares& users, const std::vector<JobPart>& jobs);

struct JobUse {
  std::uint64_t due_bytes = 0;
  std::uint64_t idle_bytes = 0;    // of its due, what others may have
  std::uint64_t wanted_bytes = 0;  // above its due: it would borrow
};

// What each job has then. A job that wants more than its due has that at least, and no more than it wants and
// its limit allows; a job with a promise has its promise at most; what nobody borrows stays where it is due.
std::vector<std::uint64_t> with_loans(std::uint64_t machine_bytes, const UserShares& users,
                                      const std::vector<JobPart>& jobs, const std::vector<JobUse>& uses);

}  // namespace terrace::daemon
