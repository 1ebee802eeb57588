// See group.h.
#include "daemon/base/group.h"

#include <fmt/format.h>
#include <grp.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace terrace::daemon {

std::string check_group(const std::string& group) {
  if (group.empty() || ::getgrnam(group.c_str()) != nullptr) return {};
  return fmt::format(
      "the group \"{0}\" does not exist; create it with `groupadd --system {0}` or change [daemon] group",
      group);
}

std::string give_to_group(const std::string& path, const std::string& group) {
  if (group.empty()) return {};
  const struct group* entry = ::getgrnam(group.c_str());
  if (entry == nullptr) return check_group(group);
  if (::chown(path.c_str(), static_cast<uid_t>(-1), entry->gr_gid) == 0) return {};
  return fmt::format("cannot give to the group {}: {}; start terraced as root or leave [daemon] group empty",
                     path, std::strerror(errno));
}

}  // namespace terrace::daemon
