// A tier in DRAM: an arena of anonymous memory, filled and emptied by memcpy.
//
// Compressed runs wait here instead of on a drive, and the conformance suite was written against it. The
// arena is NORESERVE. A forked child has its own copy-on-write copy of everything.
//
// Its memory comes and goes with each extent, or slab by slab: a slab has memory while any part of an extent
// lies in it. Fresh memory costs several times as much as writing to memory that is there, so a tier that is
// filled and emptied in turn is of slabs, and may have them from a source of memory (memory_source.h).
// Extents are placed first fit, so that few slabs are half empty.
//
//      extents  |aaaabbbb|bbcc    |        |dddd....
//      slabs    | memory | memory | none   | memory
#pragma once

#include <cstddef>
#include <cstdint>

#include "tiers/mapping.h"
#include "tiers/memory/immediate_tier.h"
#include "tiers/memory/memory_source.h"

namespace terrace::tiers {

class DramTier final : public ImmediateTier {
 public:
  enum class Memory : std::uint8_t { of_extents, of_slabs };

  constexpr DramTier() = default;

  // 0, EINVAL (see ImmediateTier::open_space), ENOMEM, or EBUSY when open already.
  int open(std::uint64_t capacity_bytes, std::size_t queue_depth = default_queue_depth,
           Memory memory = Memory::of_extents) noexcept;

  const char* name() const noexcept override { return "dram"; }
  Medium medium_of(std::uint64_t) const noexcept override { return Medium::dram; }
  std::uint64_t bytes_on(Medium medium) const noexcept override;
  // No extent ends above. Looks through the bookkeeping.
  using ImmediateTier::end_of_reserved;
  // For an open tier of slabs, in which nothing lies; else it is left as it was. The source outlives what
  // lies here.
  void set_memory_source(MemorySource* source) noexcept override;
  // What is stored from `offset` on: valid until the extent is released.
  const std::byte* at(std::uint64_t offset) const noexcept { return arena_ + offset; }

 private:
  int carry_out(const Transfer& transfer) noexcept override;
  int back(const Extent& extent) noexcept override;
  void discard(const Extent& extent) noexcept override;
  int open_slabs(std::uint64_t capacity_bytes) noexcept;
  std::byte* slab(std::uint64_t number) const noexcept { return arena_ + number * slab_bytes; }
  void leave_slabs(const Extent& extent) noexcept;
  int fill(std::uint64_t number) noexcept;
  void empty(std::uint64_t number) noexcept;

  Mapping mapping_;
  Mapping table_;
  std::byte* arena_ = nullptr;      // of the capacity, in mapping_
  std::uint8_t* units_ = nullptr;   // by slab: how many of its units are reserved
  std::uint64_t filled_ = 0;        // slabs that have memory
  MemorySource* source_ = nullptr;  // nullptr: the kernel
  Memory memory_ = Memory::of_extents;
};

}  // namespace terrace::tiers
