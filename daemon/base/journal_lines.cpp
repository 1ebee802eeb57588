// See journal_lines.h.
#include "daemon/base/journal_lines.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>

#include <string_view>

namespace terrace::daemon {
namespace {

std::string_view priority_of(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::critical:
      return SD_CRIT;
    case spdlog::level::err:
      return SD_ERR;
    case spdlog::level::warn:
      return SD_WARNING;
    case spdlog::level::info:
      return SD_INFO;
    default:
      return SD_DEBUG;
  }
}

class JournalLines : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override {
    line.append(priority_of(message.level));
    line.append(message.payload);
    line.push_back('\n');
  }
  std::unique_ptr<spdlog::formatter> clone() const override { return journal_lines(); }
};

}  // namespace

bool is_journal(int fd, const char* journal_stream) {
  struct stat status {};
  if (journal_stream == nullptr || ::fstat(fd, &status) != 0) return false;
  return fmt::format("{}:{}", status.st_dev, status.st_ino) == journal_stream;
}

std::unique_ptr<spdlog::formatter> journal_lines() { return std::make_unique<JournalLines>(); }

}  // namespace terrace::daemon
