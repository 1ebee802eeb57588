// See machine.h.
#include "daemon/base/machine.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <utility>
#include <vector>

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

// The tightest of a group and its ancestors, by the least of `files`.
MemoryCgroup tightest_ancestor(const std::string& mount, std::string group,
                               std::initializer_list<const char*> files) {
  MemoryCgroup tightest{{}, unlimited};
  for (;;) {
    const std::string directory = mount + group;
    for (const char* file : files) {
      const std::uint64_t limit = read_limit(directory + "/" + file);
      if (limit < tightest.limit_bytes) tightest = {directory, limit};
    }
    const auto slash = group.rfind('/');
    if (slash == std::string::npos || group.empty()) return tightest;
    group.resize(slash);
  }
}

struct CgroupLine {
  std::string controllers, group;
};

// A line of /proc/self/cgroup is "ID:controllers:path"; v2 has ID 0 and no controllers.
std::vector<CgroupLine> own_cgroups(const std::string& root) {
  std::vector<CgroupLine> own;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    own.push_back({line.substr(first + 1, second - first - 1), line.substr(second + 1)});
  }
  return own;
}

MemoryCgroup tightest_of_version_2(const std::string& root, const std::vector<CgroupLine>& own) {
  MemoryCgroup tightest{{}, unlimited};
  for (const CgroupLine& line : own) {
    if (!line.controllers.empty()) continue;
    for (const char* mount : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
      MemoryCgroup found = tightest_ancestor(root + mount, line.group, {"memory.max", "memory.high"});
      if (found.limit_bytes < tightest.limit_bytes) tightest = std::move(found);
    }
  }
  return tightest;
}

std::uint64_t limit_of_version_1(const std::string& root, const std::vector<CgroupLine>& own) {
  std::uint64_t limit = unlimited;
  for (const CgroupLine& line : own) {
    if (line.controllers != "memory") continue;
    limit = std::min(
        limit,
        tightest_ancestor(root + "/sys/fs/cgroup/memory", line.group, {"memory.limit_in_bytes"}).limit_bytes);
  }
  return limit;
}

}  // namespace

std::optional<MemoryCgroup> tightest_memory_cgroup(const std::string& root) {
  MemoryCgroup tightest = tightest_of_version_2(root, own_cgroups(root));
  const std::uint64_t memory = mem_total_bytes(root);
  if (tightest.limit_bytes == unlimited || (memory != 0 && tightest.limit_bytes >= memory))
    return std::nullopt;
  return tightest;
}

std::uint64_t memory_limit_bytes(const std::string& root) {
  const std::uint64_t memory = mem_total_bytes(root);
  const std::vector<CgroupLine> own = own_cgroups(root);
  const std::uint64_t limit =
      std::min({memory == 0 ? unlimited : memory, tightest_of_version_2(root, own).limit_bytes,
                limit_of_version_1(root, own)});
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
