// Free extents by size: two-level segregated bins (TLSF, Masmano et al., ECRTS 2004). O(1) insert and remove,
// best fit to within 1/16. Extents are records of the address space, linked through them. The heap's lock
// covers it.
#pragma once

#include <cstdint>

#include "liballoc/heap/space/block.h"

namespace terrace::liballoc {

// Granules whose addresses are multiples: the range that granule 0 begins need not.
class Alignment {
 public:
  constexpr explicit Alignment(std::uint64_t origin_granule = 0) : origin_(origin_granule) {}
  // The first granule from `granule` on whose address is a multiple of `align` granules.
  std::uint32_t next(std::uint32_t granule, std::uint32_t align) const {
    return static_cast<std::uint32_t>((origin_ + granule + align - 1) / align * align - origin_);
  }

 private:
  std::uint64_t origin_;
};

class FreeBins {
 public:
  void initialise(Block* blocks, Alignment alignment) {
    blocks_ = blocks;
    alignment_ = alignment;
  }
  void link(std::uint32_t id);
  void unlink(std::uint32_t id);
  // An extent in which so many granules fit, from the bin of that size upwards; 0: none. The own bin may hold
  // smaller ones, any bin may hold ones whose alignment does not work out: a bounded number is tried in each,
  // unless `whole_bin`.
  std::uint32_t find(std::uint32_t granules, std::uint32_t align, bool whole_bin) const;
  // One of the largest bin; 0: none.
  std::uint32_t largest() const;
  // Of all extents together.
  std::uint32_t granules() const { return granules_; }

 private:
  static constexpr unsigned sub_bits = 4;
  static constexpr unsigned first_levels = 27;
  static constexpr unsigned sub_levels = 1U << sub_bits;
  struct Bin {
    unsigned first_level;
    unsigned sub_level;
  };
  static Bin bin_of(std::uint32_t granules);
  std::uint32_t fit_in_bin(std::uint32_t head, std::uint32_t granules, std::uint32_t align,
                           unsigned most_tries) const;

  Block* blocks_ = nullptr;
  Alignment alignment_;
  std::uint32_t granules_ = 0;
  std::uint32_t first_level_map_ = 0;
  std::uint32_t sub_level_map_[first_levels] = {};
  std::uint32_t heads_[first_levels][sub_levels] = {};
};

}  // namespace terrace::liballoc
