// Of the last 64 events or so, how many were of a kind: a mean in which each event counts a little less with
// every one after it. Pure.
#pragma once

#include <cstdint>

namespace terrace::liballoc {

class RecentShare {
 public:
  void note(bool is_of_kind) { share_ += (is_of_kind ? one : 0) / remembered - share_ / remembered; }
  // More than `parts` of 16.
  bool exceeds(std::uint32_t parts) const { return share_ > one / 16 * parts; }

 private:
  static constexpr std::uint32_t one = 1U << 20;
  static constexpr std::uint32_t remembered = 64;
  std::uint32_t share_ = 0;
};

}  // namespace terrace::liballoc
