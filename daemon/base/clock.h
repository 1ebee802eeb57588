// The time, in nanoseconds: since the machine started, which is what all waits are measured by, and since
// 1970, which only people and other machines are told.
#pragma once

#include <time.h>

#include <cstdint>

namespace terrace::daemon {

inline std::uint64_t time_ns(clockid_t clock) {
  timespec now;
  ::clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

inline std::uint64_t clock_ns() { return time_ns(CLOCK_MONOTONIC); }
inline std::uint64_t wall_clock_ns() { return time_ns(CLOCK_REALTIME); }

}  // namespace terrace::daemon
