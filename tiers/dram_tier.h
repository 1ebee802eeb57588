// A tier in DRAM: an arena of anonymous memory, filled and emptied by memcpy.
//
// It is the pool that a compressed copy goes to when it is worth keeping in memory, and the reference that
// the conformance suite was written against. The arena is NORESERVE: an extent takes memory when it is
// written and gives it back when it is released, so used_bytes is a bound on what is resident. A forked child
// has its own copy-on-write copy of everything.
#pragma once

#include "tiers/immediate_tier.h"
#include "tiers/mapping.h"

namespace terrace::tiers {

class DramTier final : public ImmediateTier {
 public:
  constexpr DramTier() = default;

  // 0, EINVAL (see ImmediateTier::open_space), ENOMEM, or EBUSY when open already.
  int open(std::uint64_t capacity_bytes, std::size_t queue_depth = default_queue_depth) noexcept;

  const char* name() const noexcept override { return "dram"; }

 private:
  int carry_out(const Transfer& transfer) noexcept override;
  void discard(const Extent& extent) noexcept override;

  Mapping arena_;
};

}  // namespace terrace::tiers
