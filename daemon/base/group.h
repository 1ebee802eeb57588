// The group of the system that may connect.
#pragma once

#include <string>

namespace terrace::daemon {

// "" or why nothing can be given to this group, with the remedy. No group is a good one.
std::string check_group(const std::string& group);

// A file, which keeps its user. "" or why it could not be given; nothing is done where `group` is empty.
std::string give_to_group(const std::string& path, const std::string& group);

}  // namespace terrace::daemon
