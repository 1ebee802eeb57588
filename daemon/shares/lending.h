// What a job has for certain and does not use is lent to others, and called back when it asks for it. The
// rule by which it is divided is with_loans() of entitlements.h; here is what counts as idle, and as wanted.
// Decision 046 has the reasons.
#pragma once

#include <cstdint>

#include "daemon/shares/members.h"

namespace terrace::daemon {

inline constexpr std::uint64_t loan_step_bytes = 16ULL << 20;  // idle memory is lent in steps, or more

// Sets what each job may use, loans in or out, and marks those for which that changed as unsettled.
void lend_idle(Members* members);

}  // namespace terrace::daemon
