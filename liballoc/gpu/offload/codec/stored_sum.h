// The checksum of stored bytes: XXH3 over pieces, each seeded with the sum before it, the first with the
// tensor's number, so that another tensor's bytes at the right place are as wrong as a flipped bit. Pieces,
// so that what is copied is summed while it is in the cache.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "liballoc/base/checksum.h"

namespace terrace::liballoc::offload {

inline constexpr std::size_t sum_piece_bytes = std::size_t{128} << 10;

inline std::uint64_t stored_sum(const std::byte* data, std::uint64_t bytes, std::uint64_t number) {
  std::uint64_t sum = number;
  for (std::uint64_t at = 0; at < bytes; at += sum_piece_bytes)
    sum = checksum(data + at, std::min<std::uint64_t>(sum_piece_bytes, bytes - at), sum);
  return sum;
}

// Copies and returns the sum of what was copied.
inline std::uint64_t copy_and_sum(std::byte* to, const std::byte* from, std::uint64_t bytes,
                                  std::uint64_t number) {
  std::uint64_t sum = number;
  for (std::uint64_t at = 0; at < bytes; at += sum_piece_bytes) {
    const std::size_t piece = std::min<std::uint64_t>(sum_piece_bytes, bytes - at);
    std::memcpy(to + at, from + at, piece);
    sum = checksum(to + at, piece, sum);
  }
  return sum;
}

}  // namespace terrace::liballoc::offload
