#include "liballoc/gpu/offload/memory/host_memory.h"

#include <algorithm>
#include <fstream>
#include <string_view>

namespace terrace::liballoc::offload {
namespace {

constexpr std::uint64_t unlimited = ~std::uint64_t{0};

std::uint64_t number_in(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  return file >> value ? value : unlimited;  // "max" is no number
}

std::uint64_t total_bytes(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  std::string key;
  std::uint64_t kib = 0;
  return file >> key >> kib && key == "MemTotal:" && kib < unlimited / 1024 ? kib * 1024 : unlimited;
}

// The tightest limit of a group and those around it.
std::uint64_t tightest(const std::string& mount, std::string group, const char* file) {
  std::uint64_t limit = unlimited;
  for (;;) {
    limit = std::min(limit, number_in(mount + group + "/" + file));
    const auto slash = group.rfind('/');
    if (slash == std::string::npos) return limit;
    group.resize(slash);
  }
}

// "ID:controllers:path"; version 2 has no controllers.
std::uint64_t limit_of(const std::string& root, const std::string& line) {
  const auto first = line.find(':');
  const auto second = first == std::string::npos ? first : line.find(':', first + 1);
  if (second == std::string::npos) return unlimited;
  const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
  const std::string group = line.substr(second + 1);
  if (controllers.empty()) return tightest(root + "/sys/fs/cgroup", group, "memory.max");
  if (controllers != "memory") return unlimited;
  return tightest(root + "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes");
}

}  // namespace

std::uint64_t host_memory_limit_bytes(const std::string& root) {
  std::uint64_t limit = total_bytes(root);
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) limit = std::min(limit, limit_of(root, line));
  return limit;
}

}  // namespace terrace::liballoc::offload
