// A tier in DRAM: an arena of anonymous memory, filled and emptied by memcpy.
//
// Compressed runs wait here instead of on a drive, and the conformance suite was written against it. The
// arena is NORESERVE: it takes memory as it is written. A forked child has its own copy-on-write copy of
// everything.
//
// What becomes of the memory of a released extent is the caller's choice. Fresh memory costs several times as
// much as writing to memory that is there, so a tier that is filled and emptied in turn keeps it. Extents are
// placed first fit: what is kept lies below the highest place that was ever used.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tiers/mapping.h"
#include "tiers/memory/immediate_tier.h"

namespace terrace::tiers {

class DramTier final : public ImmediateTier {
 public:
  enum class Released : std::uint8_t { returns, stays };

  constexpr DramTier() = default;

  // 0, EINVAL (see ImmediateTier::open_space), ENOMEM, or EBUSY when open already.
  int open(std::uint64_t capacity_bytes, std::size_t queue_depth = default_queue_depth,
           Released released = Released::returns) noexcept;

  const char* name() const noexcept override { return "dram"; }
  Medium medium_of(std::uint64_t) const noexcept override { return Medium::dram; }
  std::uint64_t bytes_on(Medium medium) const noexcept override;
  std::uint64_t memory_bytes() const noexcept { return bytes_on(Medium::dram); }
  // No extent ends above. Looks through the bookkeeping.
  using ImmediateTier::end_of_reserved;
  // What is stored from `offset` on: valid until the extent is released.
  const std::byte* at(std::uint64_t offset) const noexcept { return arena_ + offset; }
  // Gives back the memory above `bytes` where nothing lies. What lies there is the caller's to move away.
  void trim(std::uint64_t bytes) noexcept;

 private:
  int carry_out(const Transfer& transfer) noexcept override;
  int back(const Extent& extent) noexcept override;
  void discard(const Extent& extent) noexcept override;

  Mapping mapping_;
  std::byte* arena_ = nullptr;  // of the capacity, in it
  Released released_ = Released::returns;
  std::uint64_t touched_bytes_ = 0;  // no extent ever ended above, since the last trim
};

}  // namespace terrace::tiers
