// What moves from one tier of a chain down to another at present. Not thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "tiers/extent_allocator.h"

namespace terrace::tiers {

struct Demotion {
  bool is_busy = false;
  bool is_read = false;        // its bytes are where they can be written from
  bool is_called_off = false;  // the extent was written or released meanwhile
  std::uint32_t level = 0;
  Extent from = {};
  std::uint32_t name = 0;  // the chain's unit of it
  std::uint32_t to_level = 0;
  Extent to = {};
};

class Demotions {
 public:
  static constexpr std::size_t most = 4;

  constexpr Demotions() = default;

  std::size_t count() const noexcept {
    return static_cast<std::size_t>(std::count_if(all_.begin(), all_.end(), is_busy));
  }
  // One that is not busy; only where count() is below `most`.
  Demotion& free_one() noexcept { return *std::find_if_not(all_.begin(), all_.end(), is_busy); }
  Demotion& operator[](std::size_t number) noexcept { return all_[number]; }
  const Demotion& operator[](std::size_t number) const noexcept { return all_[number]; }
  std::size_t number_of(const Demotion& one) const noexcept {
    return static_cast<std::size_t>(&one - all_.data());
  }
  void clear() noexcept { all_.fill({}); }

  // What lies at `place` is not to be moved any more.
  void call_off(std::uint32_t level, const Extent& place) noexcept {
    for (Demotion& one : all_) {
      const bool is_apart =
          one.from.offset + one.from.bytes <= place.offset || place.offset + place.bytes <= one.from.offset;
      if (one.is_busy && one.level == level && !is_apart) one.is_called_off = true;
    }
  }
  bool is_leaving(std::uint32_t level, std::uint64_t offset) const noexcept {
    return std::any_of(all_.begin(), all_.end(), [&](const Demotion& one) {
      return one.is_busy && !one.is_called_off && one.level == level && one.from.offset == offset;
    });
  }
  // Reserved for what is on its way.
  std::uint64_t bytes_under_way() const noexcept {
    std::uint64_t bytes = 0;
    for (const Demotion& one : all_) bytes += one.is_busy ? whole_units(one.to.bytes) : 0;
    return bytes;
  }

 private:
  static bool is_busy(const Demotion& one) noexcept { return one.is_busy; }

  std::array<Demotion, most> all_{};
};

}  // namespace terrace::tiers
