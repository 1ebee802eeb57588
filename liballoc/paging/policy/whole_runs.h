// Whether runs that come page by page would stay if they came as a whole.
//
// A touch of a single page that is away takes some 70 us, all of its run 1 to 2 ms: after a few dozen pages
// the run would have been cheaper, and each page more costs as much again. But a run takes 512 pages of
// memory, and where more runs are in use than memory holds, each would leave before its next touch. Which of
// the two it is shows without moving anything: of the runs that are touched so many would be there as memory
// holds, those that came last. What a run is touched while it would be there is what one read of it would
// have saved. Words at random in a table that fits touch each run hundreds of times; in a table that does not
// fit they go on to other runs before, and so does a pass over columns.
//
// That is the ski rental problem: who buys once the rent has come to the price pays twice the best at most
// (Karlin et al., "Competitive snoopy caching", Algorithmica 3, 1988). A run also takes memory from others,
// so it has to earn about three times its price. The memory that is only thought of is a ghost list, as in
// Megiddo and Modha, "ARC", FAST 2003, section III. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

#include "liballoc/paging/runs/run.h"

namespace terrace::liballoc {

class WholeRuns {
 public:
  static constexpr std::uint16_t touches_of_a_run = 64;  // single pages that cost thrice what the run does

  // A run was touched where it was not there, and memory holds `room` runs.
  void touched(LoneTouches& run, std::uint32_t room) {
    if (run.came != 0 && clock_ - run.came < room) return;
    run.came = ++clock_;
    run.count = 0;
  }
  // What was touched is a page that nothing leads to.
  static void touched_alone(LoneTouches& run) {
    run.count = std::min(static_cast<std::uint16_t>(run.count + 1), touches_of_a_run);
  }
  // All of it would have been cheaper, and would still be there.
  static bool pays(const LoneTouches& run) { return run.count >= touches_of_a_run; }
  // All of it comes. Before it does again for this reason, it has to earn that again.
  static void comes_whole(LoneTouches& run) { run.count = 0; }

 private:
  std::uint32_t clock_ = 0;  // runs that would have come, ever
};

}  // namespace terrace::liballoc
