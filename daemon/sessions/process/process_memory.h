// What the kernel counts of a process in DRAM, beside what the process says of itself.
//
// Counted is anonymous and shared memory (RssAnon and RssShmem in /proc/PID/status): what a heap is made of.
// Pages of files do not count, which the kernel drops as it likes, and neither does what it has swapped out.
// A reading takes some microseconds whatever the size; smaps_rollup would walk all pages.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "daemon/base/unique_fd.h"

namespace terrace::daemon {

class ProcessMemory {
 public:
  ProcessMemory() = default;
  // Of the process behind `process_fd`, a pidfd, whose number is `pid`. The file that is opened stays that
  // process's: nothing can be read from it any more when the process has ended, whoever gets its number then.
  ProcessMemory(pid_t pid, int process_fd);

  // Nothing when the process has ended, or /proc does not show it (hidepid, another PID namespace).
  std::optional<std::uint64_t> resident_bytes() const;

 private:
  UniqueFd status_;
};

// Out of the text of a /proc/PID/status; nothing when that does not say it.
std::optional<std::uint64_t> resident_in_status(std::string_view status);

}  // namespace terrace::daemon
