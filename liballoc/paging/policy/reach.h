// How much one touch brings back: a page, a stretch, or the rest of the run; and what it makes likely.
//
//   at the run's or its block's beginning, or right behind what just came   a stream: the rest of the run
//   in a run of which most came back page by page the last time             the rest of the run
//   behind the last piece of the same run                        four times as much as that piece
//   many in the same run within a short time, and a quarter of it there   used all over: the rest of the run
//   a few in the same run within a short time, in a block that leaves memory for others     the same
//   elsewhere                                                    the page alone
//   as far from the last touch as that was from the one before   a stride: strides.h
//
// So what is streamed moves in runs, and a table read by rows moves in pages. The pattern is the kernel's for
// files (mm/readahead.c), for touches that only a fault shows. Pure: told of touches, it answers with pages.
#pragma once

#include <algorithm>
#include <cstdint>

#include "liballoc/base/os.h"
#include "liballoc/paging/runs/page_set.h"
#include "liballoc/paging/runs/run.h"

namespace terrace::liballoc {

class Reach {
 public:
  // A run was touched at `page`; `streams`: it or a block begins there, or the run before it has just come as
  // a whole. `there`: its pages that are. `is_cheap`: its block can come as a whole and drive out little.
  // What shall come.
  PageRange of(TouchTrace& trace, std::uint32_t page, bool streams, std::uint32_t there, bool is_cheap) {
    constexpr unsigned touches_of_dense_use = 24;
    constexpr std::uint32_t pages_of_dense_use = pages_per_run / 4;
    const std::uint16_t window = window_of(++touches_);
    if (trace.window != window) trace.touches = 0;
    trace.window = window;
    ++trace.touches;
    const bool is_dense = trace.touches >= touches_of_dense_use && there >= pages_of_dense_use;
    if (streams || is_dense || (is_cheap && trace.touches >= touches_of_a_cheap_run)) return whole_run;
    const bool goes_on = trace.pages != 0 && page == trace.end;
    const std::uint32_t pages = goes_on ? trace.pages * 4U : 1U;
    if (pages > longest_piece) return whole_run;
    const PageRange range{page, std::min(page + pages, pages_per_run)};
    trace.end = static_cast<std::uint16_t>(range.end);
    trace.pages = static_cast<std::uint16_t>(pages);
    return range;
  }

  // Whether the next touch of a run brings all of it if that is cheap, but for what its place says.
  bool comes_whole_if_cheap(const TouchTrace& trace) const {
    return trace.window == window_of(touches_ + 1) && trace.touches + 1U >= touches_of_a_cheap_run;
  }

  static constexpr std::uint32_t longest_piece = 16;  // pages

 private:
  static constexpr unsigned touches_of_a_cheap_run = 4;
  static std::uint16_t window_of(std::uint32_t touches) {
    constexpr unsigned touches_in_window = 64;
    return static_cast<std::uint16_t>(touches / touches_in_window);
  }

  std::uint32_t touches_ = 0;
};

}  // namespace terrace::liballoc
