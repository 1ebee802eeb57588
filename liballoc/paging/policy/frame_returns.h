// Whether runs that leave are worth compressing, by how those came back that were compressed before.
//
// A compressed run comes back as a whole only. Where a touch wanted no more than a page of it, all of it is
// decoded for that page, and what made room for it is compressed in its turn. Of a run that was stored as it
// is the page comes alone. So where most of the frames that came of late
// were wanted for a page, the next runs leave as they are. Some are compressed again afterwards, to see
// whether that still holds: each time that it does after twice as many runs.
//
// What came while runs leave as they are was compressed before, and says nothing new. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace terrace::liballoc {

class FrameReturns {
 public:
  static constexpr std::uint32_t window = 16;  // frames that came
  static constexpr std::uint32_t most_for_a_page = window / 4 * 3;
  static constexpr std::uint32_t least_rest = 64;  // runs that leave
  static constexpr std::uint32_t longest_rest = 4096;

  // A frame came back. `for_a_page`: a thread touched one, and nothing said that it will touch others.
  void came(bool for_a_page) {
    if (rests()) return;
    for_a_page_ += for_a_page ? 1 : 0;
    if (++came_ < window) return;
    const bool pays = for_a_page_ < most_for_a_page;
    came_ = for_a_page_ = 0;
    left_ = pays ? 0 : rest_;
    rest_ = pays ? least_rest : std::min(2 * rest_, longest_rest);
  }

  // Runs leave as they are.
  bool rests() const { return left_ > 0; }
  // One left that was not compressed for that reason.
  void left_as_it_is() { left_ -= rests() ? 1 : 0; }

 private:
  std::uint32_t came_ = 0;        // of this window
  std::uint32_t for_a_page_ = 0;  // of those
  std::uint32_t rest_ = least_rest;
  std::uint32_t left_ = 0;  // runs until the next one is compressed
};

}  // namespace terrace::liballoc
