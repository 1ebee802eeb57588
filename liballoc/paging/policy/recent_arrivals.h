// Which of the runs that came last have come just now. That few came since does not say so: where pages are
// touched one by one no run comes, and whatever came last, long ago, would look like a stream that goes on.
// So what came also gets old by touches. Pure.
#pragma once

#include <cstdint>

namespace terrace::liballoc {

class RecentArrivals {
 public:
  static constexpr std::uint32_t most_kept = 64;
  static constexpr std::uint32_t most_touches = 32;  // since it came: a stream waits for each of its runs

  // A page was touched that is not there. `arrivals`: how many runs have come, ever.
  void touched(std::uint32_t arrivals) {
    ++touches_;
    if (arrivals - arrivals_ > most_kept) arrivals_ = arrivals - most_kept;
    while (arrivals_ != arrivals) touches_at_[++arrivals_ % most_kept] = touches_;
  }

  // Whether a run is among the last `most` that came until the last touch, at most `most_kept`, and came just
  // now. `arrival`: how many had come then, itself included; later than that touch it is new.
  bool has(std::uint32_t arrival, std::uint32_t most) const {
    const std::uint32_t since = arrivals_ - arrival;
    if (static_cast<std::int32_t>(since) < 0) return true;
    return since < most && touches_ - touches_at_[arrival % most_kept] < most_touches;
  }

 private:
  std::uint32_t touches_ = 0;
  std::uint32_t arrivals_ = 0;                // as it was told last
  std::uint32_t touches_at_[most_kept] = {};  // by arrival
};

}  // namespace terrace::liballoc
