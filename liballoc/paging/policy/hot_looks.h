// How often one of what leaves last (RunLists::hot) leaves all the same: it may have cooled down.
//
// One eviction in 32 to begin with. What is still hot comes straight back, and was moved twice for nothing:
// then the next look is twice as far away. What has not come back before a memory's worth of others has
// cooled down, and others beside it, most likely: one eviction in 32 at least, twice as many with each more
// of these. Of several looks one at a time is watched. One of the others that comes straight back counts for
// several that leave: what leaves in place of what is hot is in use, too, and what was hot may not be. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

#include "liballoc/paging/runs/run.h"

namespace terrace::liballoc {

class HotLooks {
 public:
  static constexpr std::uint32_t least_pause = 4;
  static constexpr std::uint32_t usual_pause = 32;
  static constexpr std::uint32_t most_pause = 64;
  static constexpr std::uint32_t leaves_of_a_return = 4;

  // A run has left, hot or not.
  void note_leave() { ++leaves_; }
  // One that was not hot has come straight back.
  void note_usual_back() { leaves_ += leaves_of_a_return; }
  bool is_due() const { return leaves_ >= pause_; }
  // Run n leaves now, as one is due. `arrivals`: how many runs have come, ever.
  void begin(std::uint32_t n, std::uint32_t arrivals) {
    leaves_ = 0;
    if (run_ != none) return;
    run_ = n;
    begun_ = arrivals;
  }
  // The one that is watched; none.
  std::uint32_t run() const { return run_; }
  // When that left, in arrivals.
  std::uint32_t begun() const { return begun_; }
  // `is_back`: it, or a part of it, has come back since; `arrivals` as above, `budget` in runs.
  void settle(bool is_back, std::uint32_t arrivals, std::uint32_t budget) {
    const bool has_cooled = !is_back && arrivals - begun_ > budget;
    if (is_back) pause_ = std::min(2 * pause_, most_pause);
    if (has_cooled) pause_ = std::max(std::min(pause_, 2 * usual_pause) / 2, least_pause);
    if (is_back || has_cooled) run_ = none;
  }

 private:
  std::uint32_t run_ = none;
  std::uint32_t begun_ = 0;
  std::uint32_t leaves_ = 0;  // since the last look
  std::uint32_t pause_ = usual_pause;
};

}  // namespace terrace::liballoc
