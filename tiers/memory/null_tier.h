// A tier that stores nothing: writes succeed and are forgotten, reads fail with EIO.
//
// It bounds what any tier can do (the cost of everything but the moving) and proves in a test that data was
// never read back. Contents::zeros makes reads succeed with zeros instead, for measurements that need a read
// to finish; nothing that checks its data may be pointed at it. Space is accounted for as in a real tier.
#pragma once

#include "tiers/memory/immediate_tier.h"

namespace terrace::tiers {

class NullTier final : public ImmediateTier {
 public:
  enum class Contents : std::uint8_t { none, zeros };

  constexpr NullTier() = default;

  // 0 or errno as ImmediateTier::open_space.
  int open(std::uint64_t capacity_bytes, Contents contents = Contents::none,
           std::size_t queue_depth = default_queue_depth) noexcept;

  const char* name() const noexcept override { return "null"; }
  const char* io() const noexcept override { return "none"; }

 private:
  int carry_out(const Transfer& transfer) noexcept override;
  void discard(const Extent&) noexcept override {}

  Contents contents_ = Contents::none;
};

}  // namespace terrace::tiers
