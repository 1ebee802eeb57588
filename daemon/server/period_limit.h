// How often a session may send a period: one a second, and a few in a row, since what was sent a second apart
// need not arrive so.
#pragma once

#include <algorithm>
#include <cstdint>

namespace terrace::daemon {

class PeriodLimit {
 public:
  static constexpr std::uint64_t interval_ns = 1'000'000'000;
  static constexpr std::uint64_t in_a_row = 4;

  // Counts one that came now; false: it came too early.
  bool may_send(std::uint64_t now_ns) {
    const std::uint64_t due_ns = std::max(due_ns_, now_ns);
    if (due_ns - now_ns > (in_a_row - 1) * interval_ns) return false;
    due_ns_ = due_ns + interval_ns;
    return true;
  }

 private:
  std::uint64_t due_ns_ = 0;  // when the next one would be regular
};

}  // namespace terrace::daemon
