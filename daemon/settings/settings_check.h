// Whether settings that read well can work on this machine: a start refuses those that cannot, and
// --check-config says so beforehand. A directory of the pool or of NVM that does not work is no reason
// against a start of the service: it may be back later (server/pool_directory.h, pools/nvm_pool.h).
#pragma once

#include <string>

#include "daemon/settings/config.h"

namespace terrace::daemon {

// "" or what cannot work, under its key, and what can. A private daemon serves one user's job: its group is
// not looked at.
std::string check_settings(const Config& config, bool is_private);

// "" or why no pool can be in this directory. Makes and drops an unlinked file in it.
std::string check_pool_directory(const std::string& directory);

// "" or which directory of the service is not there: the pool's, or that of its NVM.
std::string check_directories(const Config& config);

// "" or what works here but not in the service that is installed with terraced: a pool directory that its
// unit hides (ProtectHome).
std::string warning_for_service(const Config& config);

}  // namespace terrace::daemon
