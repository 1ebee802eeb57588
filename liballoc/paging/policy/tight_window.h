// How many runs of a stream stay where nearly all other memory is hot (ReactivePolicy::next_victims).
//
// One, to begin with: every further one takes the place of one that is hot. But an operation that passes
// several times over a few runs needs all of these at once; with fewer of them, what it still uses leaves
// under it. So what was streamed and comes straight back asks for one more, and what was hot and comes
// straight back for one fewer. Source: the two ghost lists of Megiddo and Modha, "ARC", FAST 2003, section
// III. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

#include "liballoc/paging/policy/stream_window.h"
#include "liballoc/paging/runs/run.h"

namespace terrace::liballoc {

class TightWindow {
 public:
  static constexpr std::uint32_t least = 1;

  // Of a budget of so many runs.
  std::uint32_t runs(std::uint32_t budget) const { return std::min(runs_, StreamWindow::most(budget)); }
  // One came back that left so many arrivals ago: `turn` says whether it was streamed, or hot.
  void note_return(Turn turn, std::uint32_t arrivals_ago, std::uint32_t budget) {
    runs_ = runs(budget);
    if (arrivals_ago > StreamWindow::most(budget)) return;
    if (turn == Turn::first) runs_ = std::min(runs_ + 1, StreamWindow::most(budget));
    if (turn == Turn::last) runs_ = std::max(runs_ - 1, least);
  }

 private:
  std::uint32_t runs_ = least;
};

}  // namespace terrace::liballoc
