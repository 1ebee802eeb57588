// The rules that every tier applies to a transfer, as pure functions: is it well formed, and how does it go
// on after the device moved only a part of it.
//
// Devices and file systems may move less than asked: at the end of a file, at a signal, when a request is cut
// at a queue boundary. The caller of a tier sees none of that (tier.h: all or nothing).
#pragma once

#include <cerrno>
#include <cstdint>

#include "tiers/tier.h"

namespace terrace::tiers {

inline bool is_block_multiple(std::uint64_t value) noexcept { return value % block_bytes == 0; }

// 0, or EINVAL for a transfer that is empty, misaligned or outside [0, capacity_bytes).
inline int check_transfer(const Transfer& transfer, std::uint64_t capacity_bytes) noexcept {
  const Extent& extent = transfer.extent;
  if (transfer.buffer == nullptr || extent.bytes == 0) return EINVAL;
  if (!is_block_multiple(reinterpret_cast<std::uintptr_t>(transfer.buffer))) return EINVAL;
  if (!is_block_multiple(extent.offset) || !is_block_multiple(extent.bytes)) return EINVAL;
  if (extent.offset >= capacity_bytes || extent.bytes > capacity_bytes - extent.offset) return EINVAL;
  return 0;
}

struct Progress {
  std::uint64_t total_bytes = 0;
  std::uint64_t done_bytes = 0;
  int fruitless = 0;  // results in a row that moved nothing forward
};

enum class Step : std::uint8_t { finished, again, failed };

// A device that keeps saying "again" is given up after this many times: an answer beats a hang.
inline constexpr int max_fruitless = 64;

// Takes one result of a read or write (bytes moved, or -errno) and says what is next; *error is set when
// failed. Progress stays a multiple of block_bytes, because O_DIRECT refuses a remainder that is not.
// ECANCELED: the thread that submitted has ended, and io_uring cancels what it had queued.
inline Step advance(Progress& progress, std::int64_t result, int* error) noexcept {
  if (result < 0 && result != -EINTR && result != -EAGAIN && result != -ECANCELED) {
    *error = static_cast<int>(-result);
    return Step::failed;
  }
  const std::uint64_t moved = result > 0 ? static_cast<std::uint64_t>(result) / block_bytes * block_bytes : 0;
  progress.done_bytes += moved;
  if (progress.done_bytes >= progress.total_bytes) return Step::finished;
  progress.fruitless = moved > 0 ? 0 : progress.fruitless + 1;
  // 0 bytes is the end of the file: it was cut short under us, and asking again will not bring it back.
  if (result != 0 && progress.fruitless < max_fruitless) return Step::again;
  *error = EIO;
  return Step::failed;
}

}  // namespace terrace::tiers
