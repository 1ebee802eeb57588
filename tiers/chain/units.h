// Offsets in a chain and its tiers, in units of space, which are also its clock.
#pragma once

#include <cstdint>

#include "tiers/extent_allocator.h"

namespace terrace::tiers {

inline constexpr std::uint64_t unit_bytes = ExtentAllocator::unit_bytes;
// How long what failed is left alone, in units that came: 256 MiB.
inline constexpr std::uint32_t rest_units = 4096;

constexpr std::uint32_t unit_of(std::uint64_t offset) noexcept {
  return static_cast<std::uint32_t>(offset / unit_bytes);
}

constexpr std::uint32_t units_of(std::uint64_t bytes) noexcept { return unit_of(whole_units(bytes)); }

}  // namespace terrace::tiers
