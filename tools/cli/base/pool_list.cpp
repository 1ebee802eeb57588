#include "tools/cli/base/pool_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>

#include "liballoc/base/pool_directories.h"

namespace terrace::cli {

namespace fs = std::filesystem;

namespace {

std::string check_directory(const std::string& directory) {
  std::error_code error;
  if (!fs::is_directory(directory, error))
    return fmt::format("--pool {} is not a directory; name one on a fast local disk, such as /var/tmp",
                       directory);
  if (access(directory.c_str(), W_OK | X_OK) != 0)
    return fmt::format("--pool {} cannot be written to ({}); name a directory of yours, such as /var/tmp",
                       directory, std::strerror(errno));
  return "";
}

std::optional<dev_t> device_of(const std::string& directory) {
  struct stat found {};
  return stat(directory.c_str(), &found) == 0 ? std::optional(found.st_dev) : std::nullopt;
}

std::uint64_t free_bytes_of(const std::string& directory) {
  struct statvfs found {};
  if (statvfs(directory.c_str(), &found) != 0) return 0;
  return std::uint64_t{found.f_bavail} * found.f_frsize;
}

}  // namespace

Result<PoolList> read_pool_list(const std::string& text) {
  liballoc::PoolDirectories read;
  if (const char* problem = read.read(text.c_str())) return refused<PoolList>(problem);
  PoolList directories;
  for (std::size_t i = 0; i < read.size(); ++i) directories.emplace_back(read[i]);
  return ok(std::move(directories));
}

std::string pool_text(const PoolList& directories) { return fmt::format("{}", fmt::join(directories, ",")); }

// What is absolute may be too long, or have a comma, where what was given was not: it is read once more.
Result<PoolList> usable_pool_list(const std::string& text) {
  const auto given = read_pool_list(text);
  if (!given) return refused<PoolList>(fmt::format("--pool {}: {}", text, given.error));
  PoolList absolute;
  for (const std::string& directory : *given) {
    if (const std::string problem = check_directory(directory); !problem.empty())
      return refused<PoolList>(problem);
    std::error_code ignored;
    absolute.push_back(fs::absolute(directory, ignored).string());
    const auto again = read_pool_list(absolute.back());
    if (!again) return refused<PoolList>(fmt::format("--pool {}: {}", absolute.back(), again.error));
    if (again->size() != 1)
      return refused<PoolList>(fmt::format(
          "--pool {} has a comma in its absolute name, and a comma separates directories; name a link to it",
          absolute.back()));
  }
  return ok(std::move(absolute));
}

std::uint64_t free_pool_bytes(const PoolList& directories) {
  std::set<std::optional<dev_t>> counted;
  std::uint64_t sum = 0;
  for (const std::string& directory : directories)
    if (counted.insert(device_of(directory)).second) sum += free_bytes_of(directory);
  return sum;
}

std::string pool_twin(const PoolList& directories) {
  std::set<dev_t> seen;
  for (const std::string& directory : directories) {
    const auto device = device_of(directory);
    if (device && !seen.insert(*device).second) return directory;
  }
  return "";
}

}  // namespace terrace::cli
