// The daemon that `terrace run` brings when the machine has none: a terraced for one job, which ends by
// itself soon after the job. It is nobody's child (the job must never find it in wait()) and in its own
// session (the terminal's ^C is for the job).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "liballoc/wire/result.h"

namespace terrace::cli {

struct PrivateDaemonRequest {
  std::filesystem::path program;
  std::optional<std::uint64_t> dram_bytes;
  std::string pool_directory;  // empty: the daemon's default
  std::optional<std::uint64_t> pool_bytes;
  std::optional<std::uint64_t> writes_per_day;
  std::string log_level;  // empty: the daemon's default
};

// The socket of a daemon that answers, or why there is none. Takes at most 3 s.
Result<std::string> start_private_daemon(const PrivateDaemonRequest& request);

// A directory of mode 0700 that belongs to this user, made if missing; refused when it is a link, someone
// else's, or open to others: whoever owns it could pose as the daemon.
Result<std::filesystem::path> make_private_directory(const std::filesystem::path& directory);

}  // namespace terrace::cli
