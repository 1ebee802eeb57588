// How states lie: in blocks, which go to the drive and back as a whole, of slices, which one thread works on
// and which have a checksum each.
//
//   shelf    all parameters that keep equally many planes, one behind the other, each from a multiple of 16
//            elements on; small ones share a slice, large ones span blocks
//   block    4 slices
//   slice    65536 elements: plane 0 of all of them, then plane 1, …
//
// 256 KiB of a plane in one piece: a tenth faster than 64 KiB, as the processor's own fetching ahead begins
// anew with each; 1 MiB gains 2% more and would leave the cache between update and checksum.
//
//      block 0                              block 1
//   ┌─slice─────┬─slice─────┬─ … ────────┬─slice─────┐
//   │ m m m v v │ m m m v v │            │ m m m v v │
//   └───────────┴───────────┴────────────┴───────────┘
//     └ bias┘└──────── weight ────────────────┘
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "liballoc/base/checksum.h"
#include "tiers/tier.h"

namespace terrace::liballoc::optimizer {

inline constexpr std::size_t element_unit = 16;
inline constexpr std::size_t slice_elements = std::size_t{64} << 10;
inline constexpr std::size_t plane_bytes = slice_elements * sizeof(float);
inline constexpr std::size_t slices_per_block = 4;
inline constexpr std::size_t block_elements = slices_per_block * slice_elements;

struct Block {
  std::uint64_t number = 0;  // no other block of the optimizer has it
  unsigned planes = 0;
  std::byte* place = nullptr;   // its range of host memory; null: none (block_memory.h)
  std::byte* memory = nullptr;  // `place`, or null: it is on the drive
  tiers::Extent extent{};       // no bytes: there is no place for it on the drive
  // Every write is another generation; its sums are seeded with it, so an older version is as wrong as a
  // flipped bit. 0: never written, all zeros.
  std::uint64_t generation = 0;
  std::array<std::uint64_t, slices_per_block> sums{};

  std::size_t slice_bytes() const { return planes * plane_bytes; }
  std::size_t bytes() const { return slices_per_block * slice_bytes(); }
  // Of what lies at `content`.
  std::uint64_t sum_of(const std::byte* content, std::size_t slice) const {
    const std::uint64_t seed = (number * slices_per_block + slice) << 32 ^ generation;
    return checksum(content + slice * slice_bytes(), slice_bytes(), seed);
  }
};

}  // namespace terrace::liballoc::optimizer
