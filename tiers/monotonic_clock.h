// CLOCK_MONOTONIC, for the adaptors that delay transfers or measure them.
#pragma once

#include <time.h>

#include <cstdint>

namespace terrace::tiers {

// Nanoseconds. Any thread, and where nothing may be allocated.
inline std::uint64_t monotonic_ns() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace terrace::tiers
