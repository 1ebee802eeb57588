// How many runs a stream needs while it goes by: those that an operation still uses.
//
// Fewer, and what it uses leaves under it and comes straight back; more, and they take memory from the part
// of the cycle that stays. So it shrinks slowly while nothing comes straight back, and grows at once when
// something does. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace terrace::liballoc {

class StreamWindow {
 public:
  static constexpr std::uint32_t least = 8;

  // Of a budget of so many runs.
  std::uint32_t runs(std::uint32_t budget) const { return std::min(runs_, most(budget)); }
  // Where it begins.
  static std::uint32_t most(std::uint32_t budget) { return std::clamp<std::uint32_t>(budget / 8, least, 64); }
  // One of a stream has left.
  void note_leave() {
    if (++leaves_ < leaves_of_a_step) return;
    leaves_ = 0;
    runs_ = std::max(runs_ - 1, least);
  }
  // One came back that left so many arrivals ago.
  void note_return(std::uint32_t arrivals_ago, std::uint32_t budget) {
    runs_ = runs(budget);
    if (arrivals_ago > runs_) return;
    leaves_ = 0;
    runs_ = std::min(runs_ + step, most(budget));
  }

 private:
  static constexpr std::uint32_t leaves_of_a_step = 32;
  static constexpr std::uint32_t step = 4;

  std::uint32_t runs_ = 64;
  std::uint32_t leaves_ = 0;
};

}  // namespace terrace::liballoc
