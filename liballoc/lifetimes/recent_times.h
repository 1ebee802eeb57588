// The last few measurements of one length of time, and their median: one that was disturbed does not count.
// In units of 16 ns, up to 68 s. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace terrace::liballoc {

class RecentTimes {
 public:
  static constexpr std::uint32_t most = 5;

  void note(std::uint64_t ns) {
    units_[next_] = static_cast<std::uint32_t>(std::min<std::uint64_t>(ns / unit_ns, UINT32_MAX));
    next_ = static_cast<std::uint8_t>((next_ + 1) % most);
    if (count_ < most) ++count_;
  }
  bool is_empty() const { return count_ == 0; }
  // Of an even number of them the lower middle; 0 of none.
  std::uint64_t median_ns() const {
    if (count_ == 0) return 0;
    std::uint32_t sorted[most];
    for (std::uint32_t i = 0; i < count_; ++i) {
      std::uint32_t at = i;
      for (; at > 0 && sorted[at - 1] > units_[i]; --at) sorted[at] = sorted[at - 1];
      sorted[at] = units_[i];
    }
    return std::uint64_t{sorted[(count_ - 1) / 2]} * unit_ns;
  }

 private:
  static constexpr std::uint64_t unit_ns = 16;

  std::uint32_t units_[most] = {};
  std::uint8_t next_ = 0;
  std::uint8_t count_ = 0;
};

}  // namespace terrace::liballoc
