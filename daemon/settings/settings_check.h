// Whether settings that read well can work on this machine: a start refuses those that cannot, and
// --check-config says so beforehand. A pool directory that does not work would otherwise be found out by the
// jobs, each of which then keeps its data in a file that [pool] size does not count.
#pragma once

#include <string>

#include "daemon/settings/config.h"

namespace terrace::daemon {

// "" or what cannot work, under its key, and what can. Makes and drops an unlinked file in the pool
// directory. A private daemon serves one user's job, which can do without a pool and says so itself: its
// group and its directory are not looked at.
std::string check_settings(const Config& config, bool is_private);

// "" or what works here but not in the service that is installed with terraced: a pool directory that its
// unit hides (ProtectHome).
std::string warning_for_service(const Config& config);

// "" or why the socket cannot be given to this group. No group is a good one.
std::string check_group(const std::string& group);

}  // namespace terrace::daemon
