// What the tiers share whose bytes lie in the address space of this process: DRAM, and NVM that the processor
// addresses. A transfer is a memcpy, and what is stored can be read where it lies.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tiers/memory/immediate_tier.h"

namespace terrace::tiers {

class ArenaTier : public ImmediateTier {
 public:
  // No extent ends above. Looks through the bookkeeping.
  using ImmediateTier::end_of_reserved;
  // What is stored from `offset` on: valid until the extent is released.
  const std::byte* at(std::uint64_t offset) const noexcept { return arena_ + offset; }

 protected:
  constexpr ArenaTier() = default;
  // Of the capacity; stays the derived class's.
  void use_arena(std::byte* arena) noexcept { arena_ = arena; }
  std::byte* arena() const noexcept { return arena_; }

 private:
  int carry_out(const Transfer& transfer) noexcept override;

  std::byte* arena_ = nullptr;
};

}  // namespace terrace::tiers
