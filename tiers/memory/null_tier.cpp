// Forgets what is written.
#include "tiers/memory/null_tier.h"

#include <cerrno>
#include <cstring>

namespace terrace::tiers {

int NullTier::open(std::uint64_t capacity_bytes, Contents contents, std::size_t queue_depth) noexcept {
  contents_ = contents;
  return open_space(capacity_bytes, queue_depth);
}

int NullTier::carry_out(const Transfer& transfer) noexcept {
  if (transfer.direction == Direction::write) return 0;
  if (contents_ == Contents::none) return EIO;
  std::memset(transfer.buffer, 0, transfer.extent.bytes);
  return 0;
}

}  // namespace terrace::tiers
