// How much one touch brings back: a page, a stretch, or the rest of the run; and what it makes likely.
//
//   at the run's or its block's beginning, or right behind what just came   a stream: the rest of the run
//   behind the last piece of the same run                        four times as much as that piece
//   many in the same run within a short time                     used all over: the rest of the run
//   elsewhere                                                    the page alone
//   as far from the last touch as that was from the one before   a stride: pages that far apart ahead as well
//
// So what is streamed moves in runs, and a table read by rows moves in pages. The pattern is the kernel's for
// files (mm/readahead.c), for touches that only a fault shows. Pure: told of touches, it answers with pages.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "liballoc/paging/page_set.h"
#include "liballoc/run_table.h"

namespace terrace::liballoc {

class Reach {
 public:
  // A run was touched at `page`; `streams`: it or a block begins there, or the run before it has just come as
  // a whole. What shall come.
  PageRange of(TouchTrace& trace, std::uint32_t page, bool streams) {
    constexpr unsigned touches_in_window = 64;
    constexpr unsigned touches_of_dense_use = 24;
    const auto window = static_cast<std::uint16_t>(++touches_ / touches_in_window);
    if (trace.window != window) trace.touches = 0;
    trace.window = window;
    ++trace.touches;
    if (streams || trace.touches >= touches_of_dense_use) return whole_run;
    const bool goes_on = trace.pages != 0 && page == trace.end;
    const std::uint32_t pages = goes_on ? trace.pages * 4U : 1U;
    if (pages > longest_piece) return whole_run;
    const PageRange range{page, std::min(page + pages, pages_per_run)};
    trace.end = static_cast<std::uint16_t>(range.end);
    trace.pages = static_cast<std::uint16_t>(pages);
    return range;
  }

  static constexpr std::uint32_t longest_piece = 16;  // pages

 private:
  std::uint32_t touches_ = 0;
};

// Strides, in pages of the whole heap: a few at a time, as threads have one each.
class Strides {
 public:
  struct Ahead {
    std::uint64_t first = 0;
    std::int64_t stride = 0;
    std::uint32_t count = 0;  // 0: none
  };
  // A touch brought a single page. Which others shall come.
  Ahead touched(std::uint64_t page) {
    for (Stream& s : streams_) {
      if (s.stride == 0 || page != s.next) continue;
      s.ahead = std::min(s.ahead * 2, most_ahead);
      return go_on(s, page);
    }
    Stream* const s = nearest(page);
    const std::int64_t distance = static_cast<std::int64_t>(page - s->last);
    const bool repeats =
        distance == s->distance && distance != 0 && distance != 1 && std::abs(distance) <= longest_stride;
    s->distance = distance;
    s->last = page;
    s->used = ++clock_;
    s->stride = 0;
    if (!repeats) return {};
    s->stride = distance;
    s->ahead = 4;
    return go_on(*s, page);
  }

 private:
  static constexpr std::uint32_t most_ahead = 16;
  static constexpr std::int64_t longest_stride = pages_per_run / 4;  // beyond it are the beginnings of runs
  static constexpr std::uint64_t near = std::uint64_t{8} * pages_per_run;
  struct Stream {
    std::uint64_t last = 0, next = 0, used = 0;
    std::int64_t distance = 0, stride = 0;
    std::uint32_t ahead = 0;
  };

  Ahead go_on(Stream& s, std::uint64_t page) {
    s.used = ++clock_;
    s.last = page + static_cast<std::uint64_t>(s.stride) * s.ahead;
    s.next = s.last + static_cast<std::uint64_t>(s.stride);
    return {page + static_cast<std::uint64_t>(s.stride), s.stride, s.ahead};
  }
  // The one whose last touch was close by, or else the one that was used longest ago.
  Stream* nearest(std::uint64_t page) {
    Stream* oldest = &streams_[0];
    for (Stream& s : streams_) {
      const std::uint64_t distance = page > s.last ? page - s.last : s.last - page;
      if (s.used != 0 && distance < near) return &s;
      if (s.used < oldest->used) oldest = &s;
    }
    *oldest = Stream{};
    return oldest;
  }

  Stream streams_[8];
  std::uint64_t clock_ = 0;
};

}  // namespace terrace::liballoc
