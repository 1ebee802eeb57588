// Finding the cgroup of this process. proc_pid_cgroup gives a path inside the hierarchy, mountinfo which part
// of the hierarchy is mounted where (in a container: a subtree), and the two together a directory.
#include "tools/cli/cgroup/cgroup.h"

#include <fmt/format.h>

#include <sstream>
#include <vector>

#include "tools/cli/base/files.h"

namespace terrace::cli {

namespace fs = std::filesystem;

namespace {

// Version 1 writes "no limit" as the largest multiple of the page size below 2^63.
constexpr std::uint64_t v1_unlimited = std::uint64_t{1} << 62;

struct Mount {
  std::string subtree;  // the part of the hierarchy that is mounted
  std::string point;
  std::string type;
  std::string options;
};

// mountinfo writes space, tab, newline and backslash as \ooo.
std::string unescaped(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

// "id parent major:minor subtree point options [optional…] - type source superoptions",
// proc_pid_mountinfo(5).
std::optional<Mount> parse_mount(const std::string& line) {
  std::istringstream words(line);
  std::string skip, source;
  Mount mount;
  words >> skip >> skip >> skip >> mount.subtree >> mount.point;
  while (words >> skip && skip != "-") {
  }
  if (!(words >> mount.type >> source >> mount.options)) return std::nullopt;
  mount.subtree = unescaped(mount.subtree);
  mount.point = unescaped(mount.point);
  return mount;
}

bool lists(const std::string& comma_separated, const std::string& item) {
  std::istringstream items(comma_separated);
  for (std::string one; std::getline(items, one, ',');)
    if (one == item) return true;
  return false;
}

std::optional<Mount> find_mount(const fs::path& root, CgroupVersion version) {
  std::istringstream lines(read_text(root / "proc/self/mountinfo").value_or(""));
  for (std::string line; std::getline(lines, line);) {
    auto mount = parse_mount(line);
    if (!mount) continue;
    if (version == CgroupVersion::v1 && mount->type == "cgroup" && lists(mount->options, "memory"))
      return mount;
    if (version == CgroupVersion::v2 && mount->type == "cgroup2") return mount;
  }
  return std::nullopt;
}

// Lines are "id:controllers:path"; version 2 is "0::path".
std::optional<std::string> own_path(const fs::path& root, CgroupVersion version) {
  std::istringstream lines(read_text(root / "proc/self/cgroup").value_or(""));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (version == CgroupVersion::v1 ? lists(controllers, "memory") : line.starts_with("0::"))
      return line.substr(second + 1);
  }
  return std::nullopt;
}

bool below(const std::string& path, const std::string& subtree) {
  return path == subtree || (path.starts_with(subtree) && path[subtree.size()] == '/');
}

// In a container the path may lie outside of what is mounted: then the mount point is all that can be seen.
fs::path directory_of(const Mount& mount, const std::string& path, const fs::path& point) {
  std::string inside = path;
  if (mount.subtree != "/") inside = below(path, mount.subtree) ? path.substr(mount.subtree.size()) : "";
  const fs::path relative = fs::path(inside).relative_path();
  const fs::path directory = relative.empty() ? point : (point / relative).lexically_normal();
  std::error_code ignored;
  return fs::is_directory(directory, ignored) ? directory : point;
}

std::optional<MemoryCgroup> find_version(const fs::path& root, CgroupVersion version) {
  const auto mount = find_mount(root, version);
  const auto path = own_path(root, version);
  if (!mount || !path) return std::nullopt;
  const fs::path point = root / fs::path(mount->point).relative_path();
  return MemoryCgroup{version, point, directory_of(*mount, *path, point)};
}

bool has_memory_controller(const MemoryCgroup& cgroup) {
  std::istringstream words(read_text(cgroup.mount / "cgroup.controllers").value_or(""));
  for (std::string word; words >> word;)
    if (word == "memory") return true;
  return false;
}

void tighten(Ceiling* ceiling, std::optional<std::uint64_t> limit, const fs::path& directory) {
  if (limit && *limit < ceiling->bytes) *ceiling = {*limit, fmt::format("the cgroup {}", directory.string())};
}

}  // namespace

std::optional<MemoryCgroup> find_memory_cgroup(const fs::path& root) {
  if (auto v1 = find_version(root, CgroupVersion::v1)) return v1;
  auto v2 = find_version(root, CgroupVersion::v2);
  return v2 && has_memory_controller(*v2) ? v2 : std::nullopt;
}

std::optional<std::uint64_t> limit_of(CgroupVersion version, const fs::path& directory) {
  if (version == CgroupVersion::v1) {
    const auto limit = read_number(directory / "memory.limit_in_bytes");
    return limit && *limit < v1_unlimited ? limit : std::nullopt;
  }
  const auto hard = read_number(directory / "memory.max");
  const auto high = read_number(directory / "memory.high");
  return hard && high ? std::min(*hard, *high) : hard ? hard : high;
}

Ceiling memory_ceiling(const fs::path& root) {
  const auto kib = read_keyed_number(root / "proc/meminfo", "MemTotal");
  Ceiling ceiling{kib.value_or(0) * 1024, "this machine"};
  const auto own = find_memory_cgroup(root);
  if (!own) return ceiling;
  for (fs::path at = own->directory;; at = at.parent_path()) {
    tighten(&ceiling, limit_of(own->version, at), at);
    if (at == own->mount || at == at.parent_path()) return ceiling;
  }
}

}  // namespace terrace::cli
