// Which start of the machine this is.
#pragma once

#include <string>

namespace terrace::daemon {

// The kernel's random number of it, as text: 36 characters. "" where /proc does not say it. Reads a file.
std::string boot_id();

}  // namespace terrace::daemon
