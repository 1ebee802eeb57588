// See link.h.
#include "tiers/gpu/emulated/link.h"

#include <algorithm>
#include <cstring>

#include "tiers/gpu/host_clock.h"

namespace terrace::tiers::gpu {

std::uint64_t EmulatedLink::book(std::uint64_t from_ns, std::uint64_t bytes) noexcept {
  // Rounded up: never faster than the link. 2^20 * 10^9 fits.
  const std::uint64_t slot_ns = bytes_per_s_ == 0 ? 0 : (bytes * second_ns + bytes_per_s_ - 1) / bytes_per_s_;
  const std::lock_guard lock(mutex_);
  free_at_ns_ = std::max(free_at_ns_, from_ns) + slot_ns;
  return free_at_ns_;
}

std::uint64_t EmulatedLink::chunk_bytes() const noexcept {
  return std::clamp<std::uint64_t>(bytes_per_s_ / 10'000, 4096, largest_chunk);
}

// move(offset, bytes): a chunk's content.
template <class Move>
void EmulatedLink::carry(std::uint64_t bytes, const Move& move) noexcept {
  std::uint64_t due_ns = latency_ns_ == 0 && bytes_per_s_ == 0 ? 0 : now_ns();
  const std::uint64_t chunk = bytes_per_s_ == 0 ? bytes : chunk_bytes();
  for (std::uint64_t done = 0; done < bytes;) {
    const std::uint64_t part = std::min(chunk, bytes - done);
    if (bytes_per_s_ != 0) due_ns = book(due_ns, part);
    move(done, part);
    if (bytes_per_s_ != 0) sleep_until_ns(due_ns);
    done += part;
    moved_bytes_.fetch_add(part, std::memory_order_relaxed);
  }
  if (latency_ns_ != 0) sleep_until_ns(due_ns + latency_ns_);
}

void EmulatedLink::copy(void* to, const void* from, std::uint64_t bytes) noexcept {
  carry(bytes, [=](std::uint64_t at, std::uint64_t part) {
    std::memmove(static_cast<std::byte*>(to) + at, static_cast<const std::byte*>(from) + at, part);
  });
}

void EmulatedLink::occupy(std::uint64_t bytes) noexcept {
  carry(bytes, [](std::uint64_t, std::uint64_t) {});
}

}  // namespace terrace::tiers::gpu
