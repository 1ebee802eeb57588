// Strides, in bytes of the whole heap: a few at a time, as threads have one each. A sweep over the rows of a
// matrix touches the same place in each. Rows whose page is there raise no fault, so what is seen are
// multiples of the stride; the greatest common divisor of two in a row tells it, since faults tell exact
// addresses. What a row goes on to touch in the next pages shows as faults at their beginnings: the width of
// the stream. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <numeric>

#include "liballoc/base/os.h"
#include "liballoc/heap/address_space.h"

namespace terrace::liballoc {

class Strides {
 public:
  struct Ahead {
    std::uint64_t first = 0;
    std::int64_t stride = 0;
    std::uint32_t count = 0;  // 0: none
    std::uint32_t width = 1;  // pages of each
  };
  // A touch of what is not there. Which others shall come.
  Ahead touched(std::uint64_t address) {
    for (Stream& s : streams_) {
      if (s.stride == 0) continue;
      if (is_tail(s, address)) return {};
      if (!is_ahead(s, address)) continue;
      s.ahead = std::min(s.ahead * 2, most_ahead);
      return go_on(s, address);
    }
    Stream* const s = nearest(address);
    const bool is_next_page =
        address % os::page_bytes == 0 && address / os::page_bytes == s->last / os::page_bytes + 1;
    if (s->used != 0 && is_next_page) {
      s->width = 2;
      return {};
    }
    const bool is_first = s->used == 0;
    const auto distance = is_first ? 0 : static_cast<std::int64_t>(address - s->last);
    const std::int64_t stride = common_stride(distance, s->distance);
    s->distance = distance;
    s->last = address;
    s->used = ++clock_;
    s->stride = stride;
    if (stride == 0) return {};
    s->ahead = 4;
    return go_on(*s, address);
  }

 private:
  static constexpr std::uint32_t most_ahead = 16;
  static constexpr std::int64_t most_skipped = 32;  // strides whose pages were there
  static constexpr std::uint32_t most_width = 4;
  static constexpr auto shortest_stride = static_cast<std::int64_t>(3 * os::page_bytes);
  static constexpr auto longest_stride = static_cast<std::int64_t>(run_bytes / 4);
  static constexpr std::uint64_t near = std::uint64_t{8} * run_bytes;
  struct Stream {
    std::uint64_t last = 0, next = 0, used = 0;
    std::int64_t distance = 0, stride = 0;
    std::uint32_t ahead = 0;
    std::uint32_t width = 1;
  };

  static bool is_ahead(const Stream& s, std::uint64_t address) {
    const auto distance = static_cast<std::int64_t>(address - s.next);
    return distance % s.stride == 0 && distance / s.stride >= 0 && distance / s.stride <= most_skipped;
  }
  // In the pages behind a row of the stream; which is as wide, then.
  static bool is_tail(Stream& s, std::uint64_t address) {
    const auto distance = static_cast<std::int64_t>(address - s.next);
    const std::int64_t length = std::abs(s.stride);
    const std::int64_t offset = ((distance % length) + length) % length;
    const std::int64_t rows = distance / s.stride;
    const bool is_tail = address % os::page_bytes == 0 && offset != 0 && rows >= -most_skipped &&
                         rows <= most_skipped &&
                         offset < static_cast<std::int64_t>((most_width - 1) * os::page_bytes);
    if (!is_tail) return false;
    s.width = std::max(
        s.width, 1 + static_cast<std::uint32_t>((static_cast<std::uint64_t>(offset) + os::page_bytes - 1) /
                                                os::page_bytes));
    return true;
  }
  // 0: none. A stream of neighbouring pages is no stride.
  static std::int64_t common_stride(std::int64_t one, std::int64_t other) {
    if (one == 0 || other == 0 || (one < 0) != (other < 0)) return 0;
    const std::int64_t stride = std::gcd(one, other);
    const bool is_one = stride >= shortest_stride && stride <= longest_stride &&
                        std::abs(one) / stride <= most_skipped / 2 &&
                        std::abs(other) / stride <= most_skipped / 2;
    return is_one ? (one < 0 ? -stride : stride) : 0;
  }
  Ahead go_on(Stream& s, std::uint64_t address) {
    s.used = ++clock_;
    s.last = address + static_cast<std::uint64_t>(s.stride) * s.ahead;
    s.next = s.last + static_cast<std::uint64_t>(s.stride);
    return {address + static_cast<std::uint64_t>(s.stride), s.stride, s.ahead, s.width};
  }
  // The one whose last touch was close by, or else the one that was used longest ago.
  Stream* nearest(std::uint64_t address) {
    Stream* oldest = &streams_[0];
    for (Stream& s : streams_) {
      const std::uint64_t distance = address > s.last ? address - s.last : s.last - address;
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
