// memcpy to and from an anonymous arena.
#include "tiers/dram_tier.h"

#include <sys/mman.h>

#include <cstring>

namespace terrace::tiers {

int DramTier::open(std::uint64_t capacity_bytes, std::size_t queue_depth) noexcept {
  if (const int error = open_space(capacity_bytes, queue_depth)) return error;
  return arena_.map(space().capacity_bytes);
}

int DramTier::carry_out(const Transfer& transfer) noexcept {
  std::byte* const place = arena_.data() + transfer.extent.offset;
  if (transfer.direction == Direction::write)
    std::memcpy(place, transfer.buffer, transfer.extent.bytes);
  else
    std::memcpy(transfer.buffer, place, transfer.extent.bytes);
  return 0;
}

void DramTier::discard(const Extent& extent) noexcept {
  ::madvise(arena_.data() + extent.offset, extent.bytes, MADV_DONTNEED);
}

}  // namespace terrace::tiers
