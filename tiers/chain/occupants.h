// What lies on one tier of a chain, in the order in which it came: who is to move down next.
//
// Time is the chain's, which counts what came to it (chained_tier.h).
//
// One row for each unit of the tier's space; the row of an extent's first unit stands for the extent. No
// malloc: the table is a mapping. Not thread-safe.
#pragma once

#include <cstdint>

#include "tiers/extent_allocator.h"
#include "tiers/mapping.h"
#include "tiers/tier.h"

namespace terrace::tiers {

class Occupants {
 public:
  static constexpr std::uint32_t none = UINT32_MAX;

  constexpr Occupants() = default;

  // 0 or errno; EBUSY when open.
  int open(std::uint64_t capacity_bytes) noexcept;
  void close() noexcept;

  // The extent at `place` of the tier, which the chain knows as `name` (its unit there).
  void add(const Extent& place, std::uint32_t name, std::uint32_t now) noexcept;
  // Of extents that are there, whole or their ends.
  void remove(const Extent& place) noexcept;

  // The unit of the one that came first, or of the next one after; none: there is no more.
  std::uint32_t oldest() const noexcept { return oldest_; }
  std::uint32_t after(std::uint32_t unit) const noexcept { return rows_[unit].newer; }
  // The one that covers `offset`; none.
  std::uint32_t at(std::uint64_t offset) const noexcept;
  Extent place_of(std::uint32_t unit) const noexcept {
    return {unit * ExtentAllocator::unit_bytes, rows_[unit].bytes};
  }
  std::uint32_t name_of(std::uint32_t unit) const noexcept { return rows_[unit].name; }
  std::uint32_t since(std::uint32_t unit) const noexcept { return rows_[unit].since; }

  // For tests: every row of the list is one of an extent, and no other is.
  bool check_invariants() const noexcept;

 private:
  struct Row {
    std::uint32_t since = 0;  // on the chain's clock
    std::uint32_t bytes = 0;  // 0: no extent begins here
    std::uint32_t name = 0;
    std::uint32_t older = none;
    std::uint32_t newer = none;
  };

  void unlink(std::uint32_t unit) noexcept;

  Mapping table_;
  Row* rows_ = nullptr;
  std::uint32_t units_ = 0;
  std::uint32_t oldest_ = none;
  std::uint32_t newest_ = none;
};

}  // namespace terrace::tiers
