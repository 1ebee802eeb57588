// See drive_counter.h.
#include "daemon/writes/drive_counter.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <fstream>
#include <sstream>

namespace terrace::daemon {

std::optional<std::uint64_t> written_in_stat(const std::string& text) {
  constexpr int before = 6;
  constexpr std::uint64_t sector_bytes = 512;
  std::istringstream fields(text);
  std::uint64_t value = 0;
  for (int i = 0; i <= before; ++i)
    if (!(fields >> value)) return std::nullopt;
  if (value > ~std::uint64_t{0} / sector_bytes) return std::nullopt;
  return value * sector_bytes;
}

DriveCounter::DriveCounter(const std::string& directory, const std::string& root) {
  struct stat status {};
  if (::stat(directory.c_str(), &status) != 0 || major(status.st_dev) == 0) return;
  path_ = fmt::format("{}/sys/dev/block/{}:{}/stat", root, major(status.st_dev), minor(status.st_dev));
}

std::optional<std::uint64_t> DriveCounter::written_bytes() const {
  if (path_.empty()) return std::nullopt;
  std::ifstream file(path_);
  std::string text;
  if (!std::getline(file, text)) return std::nullopt;
  return written_in_stat(text);
}

}  // namespace terrace::daemon
