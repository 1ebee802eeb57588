// The clock that emulated links are paced by: monotonic, in nanoseconds, slept on to an absolute time so that
// being late once does not make everything after it late.
#pragma once

#include <time.h>

#include <cerrno>
#include <cstdint>

namespace terrace::tiers::gpu {

inline constexpr std::uint64_t second_ns = 1'000'000'000;

inline std::uint64_t now_ns() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * second_ns + static_cast<std::uint64_t>(now.tv_nsec);
}

inline void sleep_until_ns(std::uint64_t due_ns) noexcept {
  const timespec due{static_cast<time_t>(due_ns / second_ns), static_cast<long>(due_ns % second_ns)};
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, nullptr) == EINTR) {
  }
}

}  // namespace terrace::tiers::gpu
