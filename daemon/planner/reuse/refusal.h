// What no policy can work with, said before any starts: sums that would not fit 64 bits, lives and alignments
// that break the contract of Buffer. With this checked, the policies add and round without looking.
#pragma once

#include <bit>
#include <string>

#include "daemon/planner/reuse/instance.h"

namespace terrace::planner {

// All bytes of an instance together, paddings included; leaves room for sums of two totals.
inline constexpr std::uint64_t max_instance_bytes = std::uint64_t{1} << 61;

inline std::string refusal_of(const Buffer& b, std::size_t n) {
  const std::string name = "buffer " + std::to_string(n);
  if (b.upper <= b.lower)
    return name + " has an empty life: " + std::to_string(b.lower) + " to " + std::to_string(b.upper);
  if (!std::has_single_bit(b.alignment) || b.alignment > max_instance_bytes)
    return name + " has alignment " + std::to_string(b.alignment) +
           ", which must be a power of two up to 2^61";
  return {};
}

// Why no policy can place this instance; empty if any may. O(n).
inline std::string refusal(const Instance& instance) {
  std::uint64_t alignment = 1;
  std::uint64_t left = max_instance_bytes;
  for (std::size_t n = 0; n < instance.buffers.size(); ++n) {
    const Buffer& b = instance.buffers[n];
    if (std::string why = refusal_of(b, n); !why.empty()) return why;
    alignment = b.alignment > alignment ? b.alignment : alignment;
    if (b.bytes > left) return "the buffers together exceed 2^61 bytes";
    left -= b.bytes;
  }
  if (alignment - 1 > left / (instance.buffers.size() + 1))
    return "the buffers and the paddings of alignment " + std::to_string(alignment) +
           " together exceed 2^61 bytes";
  return {};
}

// value rounded up to a power of two.
inline std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

}  // namespace terrace::planner
