// Where what a chain gave out lies: for each unit of the chain's own space the tier and the unit there, and
// for an extent's first unit when it came, until it is read.
//
// No malloc: the table is a mapping, of which only what is used takes memory. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tiers/extent_allocator.h"
#include "tiers/mapping.h"

namespace terrace::tiers {

struct Place {
  std::uint32_t level = 0;
  std::uint32_t unit = 0;
  std::uint64_t offset() const noexcept { return unit * ExtentAllocator::unit_bytes; }
  friend bool operator==(const Place&, const Place&) = default;
};

class PlaceMap {
 public:
  constexpr PlaceMap() = default;

  // 0 or errno; EBUSY when open.
  int open(std::uint64_t units) noexcept {
    const int error = table_.map(units * sizeof(Entry));
    entries_ = reinterpret_cast<Entry*>(table_.data());  // zeroed: nothing lies anywhere
    return error;
  }
  void close() noexcept {
    table_.unmap();
    entries_ = nullptr;
  }

  bool has(std::uint64_t name) const noexcept { return entries_[name].place != 0; }
  // Only where has().
  Place at(std::uint64_t name) const noexcept {
    const std::uint32_t place = entries_[name].place;
    return {place >> unit_bits, (place & unit_mask) - 1};
  }
  void put(std::uint64_t name, Place place) noexcept {
    entries_[name].place = place.level << unit_bits | (place.unit + 1);
  }
  void clear(std::uint64_t name) noexcept { entries_[name] = {}; }

  void note_came(std::uint64_t name, std::uint32_t now) noexcept { entries_[name].since = now; }
  // When it came; 0: it was read since, or does not begin an extent.
  std::uint32_t take_since(std::uint64_t name) noexcept {
    const std::uint32_t since = entries_[name].since;
    entries_[name].since = 0;
    return since;
  }

 private:
  static constexpr unsigned unit_bits = 28;
  static constexpr std::uint32_t unit_mask = (1U << unit_bits) - 1;

  struct Entry {
    std::uint32_t place = 0;
    std::uint32_t since = 0;
  };

  Mapping table_;
  Entry* entries_ = nullptr;
};

}  // namespace terrace::tiers
