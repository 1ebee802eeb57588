// Carves a space of bytes into extents: the bookkeeping of every tier, without the bytes.
//
// First fit over a bitmap of 64 KiB units. First fit, because a pool file is preallocated from its start
// and overwriting blocks that were written before is cheaper than writing fresh ones; 64 KiB, because
// runs are 1 to 4 MiB, compressed frames a fraction of that, and 4 TiB then needs 8 MiB of bitmap. Two
// things keep the search short:
//
//   full_     one bit per 64-bit word of the bitmap, set when the word has no free unit: 256 MiB of used
//             space is passed over by one instruction
//   floor_    for each run length up to 64 units (4 MiB), a unit below which no free run of that length
//             starts; a release lowers it only for lengths that fit in the hole that the release opened
//
//      unit   0       8       16      24
//             ########..###.....######........      # used  . free
//             floor[1..2] = 8, floor[3..5] = 13, floor[6..] = 24 (or lower: they are bounds, not answers)
//
// One anonymous mapping made by open() holds both bitmaps; pages of it that were never touched cost nothing.
// Not thread-safe: the tier's caller serialises (see tier.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tiers/mapping.h"
#include "tiers/tier.h"

namespace terrace::tiers {

class ExtentAllocator {
 public:
  static constexpr std::uint64_t unit_bytes = std::uint64_t{64} << 10;
  static constexpr std::uint64_t max_capacity_bytes = std::uint64_t{4} << 40;

  constexpr ExtentAllocator() = default;

  // Capacity is rounded down to whole units. EINVAL: less than one unit or above
  // max_capacity_bytes; EBUSY: open.
  int open(std::uint64_t capacity_bytes) noexcept;
  // Back to the default state.
  void close() noexcept;

  // The lowest place where `bytes` fit. 0, EINVAL (zero bytes) or ENOSPC; *out is untouched on failure.
  int reserve(std::uint64_t bytes, Extent* out) noexcept;
  // False, and nothing changes, when any part of `extent` is not reserved or its shape cannot come from
  // reserve(). An extent is not told from two neighbours of the same total length.
  [[nodiscard]] bool release(const Extent& extent) noexcept;
  bool is_reserved(const Extent& extent) const noexcept;

  // Does not change while open: the one member that other threads may read during reserve() and release().
  std::uint64_t capacity_bytes() const noexcept { return units_ * unit_bytes; }
  // Whole units count as used (whole_units()): a 4 KiB extent uses 64 KiB.
  Space space() const noexcept { return {units_ * unit_bytes, used_units_ * unit_bytes}; }

  // Where the highest extent ends, in whole units; 0 where there is none. All that there are end at `below`
  // at the latest. Linear in what is free below that.
  std::uint64_t end_of_reserved(std::uint64_t below = UINT64_MAX) const noexcept;

  // The first stretch from `from` on that nobody has reserved, in whole units; it ends at `below` at the
  // latest. Of no bytes where there is none.
  Extent free_stretch(std::uint64_t from, std::uint64_t below) const noexcept;

  // Recounts everything from the bitmap; for tests, linear in the capacity.
  bool check_invariants() const noexcept;

 private:
  static constexpr std::uint64_t word_bits = 64;
  static constexpr std::size_t floors = 64;

  std::uint64_t words() const noexcept { return (units_ + word_bits - 1) / word_bits; }
  std::uint64_t next_free(std::uint64_t unit) const noexcept;
  std::uint64_t next_word_with_room(std::uint64_t word) const noexcept;
  std::uint64_t free_length(std::uint64_t unit, std::uint64_t limit) const noexcept;
  std::uint64_t free_length_before(std::uint64_t unit, std::uint64_t limit) const noexcept;
  std::uint64_t find(std::uint64_t count) const noexcept;
  bool all_used(std::uint64_t unit, std::uint64_t count) const noexcept;
  void mark(std::uint64_t unit, std::uint64_t count, bool used) noexcept;
  void mark_word(std::uint64_t word, std::uint64_t mask, bool used) noexcept;
  void raise_floors(std::uint64_t count, std::uint64_t unit) noexcept;
  void lower_floors(std::uint64_t unit, std::uint64_t count) noexcept;

  Mapping table_;
  std::uint64_t* used_ = nullptr;  // bit per unit; bits past the end are set
  std::uint64_t* full_ = nullptr;  // bit per word of used_
  std::uint64_t units_ = 0;
  std::uint64_t used_units_ = 0;
  std::array<std::uint64_t, floors + 1> floor_{};  // [n], n = 1..64 units; [0] is not used
};

// What an extent of `bytes` takes of the space.
constexpr std::uint64_t whole_units(std::uint64_t bytes) noexcept {
  constexpr std::uint64_t unit = ExtentAllocator::unit_bytes;
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace terrace::tiers
