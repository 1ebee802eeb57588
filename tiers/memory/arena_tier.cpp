#include "tiers/memory/arena_tier.h"

#include <cstring>

namespace terrace::tiers {

int ArenaTier::carry_out(const Transfer& transfer) noexcept {
  std::byte* const place = arena_ + transfer.extent.offset;
  if (transfer.direction == Direction::write)
    std::memcpy(place, transfer.buffer, transfer.extent.bytes);
  else
    std::memcpy(transfer.buffer, place, transfer.extent.bytes);
  return 0;
}

}  // namespace terrace::tiers
