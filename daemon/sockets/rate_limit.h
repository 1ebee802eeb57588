// How often something may happen: once in an interval, and some times in a row, since what was sent an
// interval apart need not arrive so.
#pragma once

#include <algorithm>
#include <cstdint>

namespace terrace::daemon {

class RateLimit {
 public:
  RateLimit(std::uint64_t interval_ns, std::uint64_t in_a_row)
      : interval_ns_(interval_ns), in_a_row_(in_a_row) {}

  // Counts one that came now; false: it came too early.
  bool allow(std::uint64_t now_ns) {
    const std::uint64_t due_ns = std::max(due_ns_, now_ns);
    if (due_ns - now_ns > (in_a_row_ - 1) * interval_ns_) return false;
    due_ns_ = due_ns + interval_ns_;
    return true;
  }

 private:
  std::uint64_t interval_ns_, in_a_row_;
  std::uint64_t due_ns_ = 0;  // when the next one would be regular
};

}  // namespace terrace::daemon
