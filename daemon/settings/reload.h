// Which settings a reload changes, and which only the next start does. Pure.
#pragma once

#include <string>

#include "daemon/settings/config.h"

namespace terrace::daemon {

// Whether `next` has something new that takes a restart. `socket`: as it was set; of `config` it is where the
// socket really is.
bool takes_restart(const Config& next, const Config& config, const std::string& socket);

// What a reload changes. The rest stays as it is.
void take_over(Config next, Config* config);

}  // namespace terrace::daemon
