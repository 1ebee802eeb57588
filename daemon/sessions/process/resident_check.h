// Whether what a process reports of its DRAM can be true beside what the kernel counts. Pure.
//
// The kernel counts the whole process: Terrace's heap, which the process reports, and what lies outside of
// it, which no budget covers (allocations under the threshold, the program's own mappings, stacks). Nobody
// but the process knows where the one ends. So the kernel may count more than is reported by
//
//   slack_bytes, which an interpreter with its libraries takes outside the heap,
//   an eighth of the whole, for programs that have many small objects beside large ones, and
//   what it counted more at two readings in a row while nothing was to be had by a lie: nobody waited for the
//   process to give memory up. Of that no more than the process has ever reported: one that reports nothing
//   has not shown that it is what it says.
//
// What is beyond is understated, and the kernel's figure holds. The other way round is nobody's harm: what a
// heap has handed out and nobody has touched, and what the kernel has swapped out, is reported and not
// counted. Pages that parent and child share since a fork are counted for both.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "daemon/base/size.h"

namespace terrace::daemon {

class ResidentCheck {
 public:
  static constexpr std::uint64_t slack_bytes = 256ULL << 20;

  // At one and the same time the process reported and the kernel counted so much. `is_waited_for`: others
  // wait for it to give memory up.
  void observe(std::uint64_t reported_bytes, std::uint64_t counted_bytes, bool is_waited_for) {
    counted_bytes_ = counted_bytes;
    most_reported_bytes_ = std::max(most_reported_bytes_, reported_bytes);
    const std::uint64_t unexplained = minus(counted_bytes, reported_bytes);
    if (!is_waited_for)
      outside_bytes_ =
          std::max(outside_bytes_, std::min({unexplained, last_unexplained_bytes_, most_reported_bytes_}));
    last_unexplained_bytes_ = is_waited_for ? 0 : unexplained;
  }

  // What the kernel counted last; nothing before it was asked.
  std::optional<std::uint64_t> counted_bytes() const { return counted_bytes_; }
  // Whether a report is less than can be true. Of a report that has fallen since the last check that is so
  // until the next one: who has given is believed then.
  bool is_understated(std::uint64_t reported_bytes) const {
    if (!counted_bytes_) return false;
    const std::uint64_t allowed = slack_bytes + *counted_bytes_ / 8 + outside_bytes_;
    return minus(*counted_bytes_, reported_bytes) > allowed;
  }
  // What counts: what is reported, or the kernel's figure where that is understated.
  std::uint64_t resident_bytes(std::uint64_t reported_bytes) const {
    return is_understated(reported_bytes) ? *counted_bytes_ : reported_bytes;
  }

 private:
  std::optional<std::uint64_t> counted_bytes_;
  std::uint64_t outside_bytes_ = 0;  // taken to lie outside the heap
  std::uint64_t most_reported_bytes_ = 0;
  std::uint64_t last_unexplained_bytes_ = 0;
};

}  // namespace terrace::daemon
