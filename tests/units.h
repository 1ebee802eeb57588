// Sizes as tests write them.
#pragma once

#include <cstdint>

namespace terrace::tests {

inline constexpr std::uint64_t kib = std::uint64_t{1} << 10;
inline constexpr std::uint64_t mib = std::uint64_t{1} << 20;
inline constexpr std::uint64_t gib = std::uint64_t{1} << 30;

}  // namespace terrace::tests
