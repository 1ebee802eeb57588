// Bytes that are left in each slot of time: how far a transfer reaches, forwards and backwards. O(log n).
//
// A segment tree of sums, which end at 2^64 - 1 instead of overflowing.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace terrace::planner::g10 {

class SlotTree {
 public:
  explicit SlotTree(const std::vector<std::uint64_t>& left)
      : leaves_(std::bit_ceil(std::max<std::size_t>(left.size(), 1))), sums_(2 * leaves_, 0) {
    std::copy(left.begin(), left.end(), sums_.begin() + static_cast<std::ptrdiff_t>(leaves_));
    for (std::size_t n = leaves_; n-- > 1;) renew(n);
  }

  std::uint64_t at(std::uint32_t slot) const { return sums_[leaves_ + slot]; }

  void set(std::uint32_t slot, std::uint64_t left) {
    std::size_t n = leaves_ + slot;
    sums_[n] = left;
    while ((n /= 2) > 0) renew(n);
  }

  // The slot in which a transfer of `bytes` (at least 1) that begins with `from` ends.
  std::optional<std::uint32_t> forwards(std::uint32_t from, std::uint64_t bytes) const {
    if (from >= leaves_) return std::nullopt;
    std::size_t n = leaves_ + from;
    while (sums_[n] < bytes) {
      bytes -= sums_[n];
      while (n > 1 && n % 2 == 1) n /= 2;
      if (n == 1) return std::nullopt;
      ++n;
    }
    while (n < leaves_) {
      n *= 2;
      if (sums_[n] < bytes) bytes -= sums_[n++];
    }
    return static_cast<std::uint32_t>(n - leaves_);
  }

  // The slot with which it has to begin to end before `end` (at least 1).
  std::optional<std::uint32_t> backwards(std::uint32_t end, std::uint64_t bytes) const {
    std::size_t n = leaves_ + end - 1;
    while (sums_[n] < bytes) {
      bytes -= sums_[n];
      while (n % 2 == 0) n /= 2;
      if (n == 1) return std::nullopt;
      --n;
    }
    while (n < leaves_) {
      n = n * 2 + 1;
      if (sums_[n] < bytes) bytes -= sums_[n--];
    }
    return static_cast<std::uint32_t>(n - leaves_);
  }

 private:
  void renew(std::size_t n) {
    const std::uint64_t left = sums_[n * 2], right = sums_[n * 2 + 1];
    sums_[n] = left + std::min(right, std::numeric_limits<std::uint64_t>::max() - left);
  }

  std::size_t leaves_;
  std::vector<std::uint64_t> sums_;
};

}  // namespace terrace::planner::g10
