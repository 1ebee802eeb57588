// See machine.h.
#include "daemon/machine.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string_view>

namespace terrace::daemon {
namespace {

constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

std::uint64_t mem_total_bytes(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  std::string label;
  std::uint64_t kib = 0;
  while (file >> label) {
    if (label == "MemTotal:" && file >> kib) return kib * 1024;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 0;
}

// "max" (v2) does not parse and leaves `unlimited`; v1 writes a huge number for none.
std::uint64_t read_limit(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t bytes = 0;
  return file >> bytes ? bytes : unlimited;
}

std::uint64_t tightest_ancestor(const std::string& mount, std::string group, const char* limit_file) {
  std::uint64_t limit = unlimited;
  for (;;) {
    limit = std::min(limit, read_limit(mount + group + "/" + limit_file));
    const auto slash = group.rfind('/');
    if (slash == std::string::npos || group.empty()) return limit;
    group.resize(slash);
  }
}

// A line of /proc/self/cgroup is "ID:controllers:path"; v2 has ID 0 and no controllers.
std::uint64_t limit_of_line(const std::string& root, std::string_view line) {
  const auto first = line.find(':');
  const auto second = line.find(':', first + 1);
  if (first == std::string_view::npos || second == std::string_view::npos) return unlimited;
  const std::string_view controllers = line.substr(first + 1, second - first - 1);
  const std::string group(line.substr(second + 1));
  if (controllers.empty()) {
    return std::min(tightest_ancestor(root + "/sys/fs/cgroup", group, "memory.max"),
                    tightest_ancestor(root + "/sys/fs/cgroup/unified", group, "memory.max"));
  }
  if (controllers != "memory") return unlimited;
  return tightest_ancestor(root + "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes");
}

}  // namespace

std::uint64_t memory_limit_bytes(const std::string& root) {
  std::uint64_t limit = mem_total_bytes(root);
  if (limit == 0) limit = unlimited;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) limit = std::min(limit, limit_of_line(root, line));
  return limit == unlimited ? 0 : limit;
}

std::uint64_t whole_disk_bytes(const std::string& directory) {
  struct statvfs status;
  if (::statvfs(directory.c_str(), &status) != 0) return 0;
  return static_cast<std::uint64_t>(status.f_blocks) * status.f_frsize;
}

std::uint64_t free_disk_bytes(const std::string& directory) {
  struct statvfs status;
  if (::statvfs(directory.c_str(), &status) != 0) return 0;
  return static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize;
}

}  // namespace terrace::daemon
