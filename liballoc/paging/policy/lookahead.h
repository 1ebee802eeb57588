// How many runs may lie in DRAM that were read before they were asked for.
//
// Of so many that were used or given up unused it is counted how many were in vain, each of which was a read
// for nothing, and how many came late, that is, had to be waited for. Many in vain: half as many. Late ones:
// some more. Neither: one fewer, as each takes memory from what stays. Source: Srinath et al., "Feedback
// Directed Prefetching", HPCA 2007, section 3. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace terrace::liballoc {

class Lookahead {
 public:
  static constexpr std::uint32_t least = 8;
  static constexpr std::uint32_t most = 64;
  static constexpr std::uint64_t sample = 32;

  std::uint32_t runs() const { return runs_; }
  // A run was used that had been away. `wasted`: how many were given up unused, ever.
  void note_use(bool is_late, std::uint64_t wasted) {
    ++used_;
    late_ += is_late ? 1 : 0;
    note_waste(wasted);
  }
  void note_waste(std::uint64_t wasted) {
    const std::uint64_t in_vain = wasted - wasted_;
    if (used_ + in_vain < sample) return;
    if (in_vain > sample * 3 / 8)
      runs_ = std::max(runs_ / 2, least);
    else if (late_ == 0)
      runs_ = std::max(runs_ - 1, least);
    else if (in_vain <= sample / 8)
      runs_ = std::min(runs_ + step, most);
    used_ = late_ = 0;
    wasted_ = wasted;
  }

 private:
  static constexpr std::uint32_t step = 4;

  std::uint32_t runs_ = least;
  std::uint64_t used_ = 0;  // since the last count
  std::uint64_t late_ = 0;  // of those
  std::uint64_t wasted_ = 0;
};

}  // namespace terrace::liballoc
