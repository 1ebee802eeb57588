// The rules of tier.h for tiers that finish a transfer inside submit().
#include "tiers/memory/immediate_tier.h"

#include <cassert>
#include <cerrno>

#include "tiers/transfer.h"

namespace terrace::tiers {

int ImmediateTier::open_space(std::uint64_t capacity_bytes, std::size_t queue_depth) noexcept {
  if (queue_depth == 0 || queue_depth > max_queue_depth) return EINVAL;
  if (const int error = extents_.open(capacity_bytes)) return error;
  queue_depth_ = queue_depth;
  return 0;
}

void ImmediateTier::close_space() noexcept {
  extents_.close();
  ready_.clear();
  queue_depth_ = 0;
  limit_bytes_ = UINT64_MAX;
  frozen_ = false;
}

int ImmediateTier::reserve(std::uint64_t bytes, Extent* out) noexcept {
  if (frozen_) return EROFS;
  Extent extent;
  if (const int error = extents_.reserve(bytes, &extent)) return error;
  const bool is_within = extent.offset + whole_units(extent.bytes) <= limit_bytes_;
  if (const int error = is_within ? back(extent) : ENOSPC) {
    static_cast<void>(extents_.release(extent));
    return error;
  }
  *out = extent;
  return 0;
}

void ImmediateTier::release(const Extent& extent) noexcept {
  if (frozen_) return;
  const bool was_reserved = extents_.release(extent);
  assert(was_reserved && "release() of an extent that is not reserved");
  if (was_reserved) discard(extent);
}

int ImmediateTier::submit(const Transfer& transfer) noexcept {
  if (const int error = check_transfer(transfer, extents_.capacity_bytes())) return error;
  if (frozen_ && transfer.direction == Direction::write) return EROFS;
  if (ready_.size() == queue_depth_) return EAGAIN;
  ready_.push({transfer.token, carry_out(transfer)});
  return 0;
}

int ImmediateTier::reopen_after_fork() noexcept {
  ready_.clear();
  frozen_ = true;
  return 0;
}

}  // namespace terrace::tiers
