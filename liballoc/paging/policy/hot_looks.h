// How often one of what leaves last (RunLists::hot) leaves all the same: it may have cooled down.
//
// One eviction in 32 to begin with. What is still hot comes straight back, and was moved twice for nothing:
// then the next look is twice as far away. What has not come back before a memory's worth of others has
// cooled down, and the looks are as close as at first. Of several looks one at a time is watched. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

#include "liballoc/paging/runs/run.h"

namespace terrace::liballoc {

class HotLooks {
 public:
  static constexpr std::uint32_t least_pause = 32;
  static constexpr std::uint32_t most_pause = 512;

  // A run has left, hot or not.
  void note_leave() { ++leaves_; }
  bool is_due() const { return leaves_ >= pause_; }
  // Run n leaves now, as one is due. `arrivals`: how many runs have come, ever.
  void begin(std::uint32_t n, std::uint32_t arrivals) {
    leaves_ = 0;
    if (run_ != none) return;
    run_ = n;
    begun_ = arrivals;
  }
  // Run n came back that had left; `arrivals` as above, `budget` in runs.
  void note_return(std::uint32_t n, std::uint32_t arrivals, std::uint32_t budget) {
    if (run_ == none) return;
    const bool is_late = arrivals - begun_ > budget;
    if (!is_late && n != run_) return;
    pause_ = is_late ? least_pause : std::min(2 * pause_, most_pause);
    run_ = none;
  }

 private:
  std::uint32_t run_ = none;  // the one that is watched
  std::uint32_t begun_ = 0;   // when it left, in arrivals
  std::uint32_t leaves_ = 0;  // since the last look
  std::uint32_t pause_ = least_pause;
};

}  // namespace terrace::liballoc
