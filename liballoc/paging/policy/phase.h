// Whether the job's live data is growing (forward pass) or shrinking (backward pass): a zigzag filter that
// turns when the count has come back by more than `slack` from its extreme. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace terrace::liballoc {

class Phase {
 public:
  void update(std::uint32_t live, std::uint32_t slack) {
    if (growing_) {
      extreme_ = std::max(extreme_, live);
      if (live + slack >= extreme_) return;
      peaks_[1] = peaks_[0];
      peaks_[0] = extreme_;
    } else {
      extreme_ = std::min(extreme_, live);
      if (live <= extreme_ + slack) return;
    }
    growing_ = !growing_;
    extreme_ = live;
  }
  bool growing() const { return growing_; }
  // The most live runs to expect: the higher of the last two peaks and of now.
  std::uint32_t expected_peak() const { return std::max({peaks_[0], peaks_[1], growing_ ? extreme_ : 0U}); }

 private:
  bool growing_ = true;
  std::uint32_t extreme_ = 0;
  std::uint32_t peaks_[2] = {};
};

}  // namespace terrace::liballoc
