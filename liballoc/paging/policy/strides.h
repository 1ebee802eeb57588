// Strides, in bytes of the whole heap: a few at a time, as threads have one each. A sweep over the rows of a
// matrix touches the same place in each. Rows whose page is there raise no fault, so what is seen are
// multiples of the stride; the greatest common divisor of two in a row tells it, since faults tell exact
// addresses. A library that works on several rows at a time takes them out of order: once the stride is
// known, rows that were passed over are its own, too. What a row goes on to touch in the next page shows as a
// fault at its beginning: so long is the touched part of each row. A sweep down the columns of a matrix
// begins anew in each of them: a step that was seen as a stride before is known as one at once. Rows are up
// to 8 MiB apart: of rows of 72,000 bytes, every 64th goes on to another page with the next column. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <numeric>

#include "liballoc/base/os.h"
#include "liballoc/heap/space/address_space.h"

namespace terrace::liballoc {

class Strides {
 public:
  struct Ahead {
    std::uint64_t first = 0;
    std::int64_t stride = 0;
    std::uint32_t count = 0;   // 0: none
    std::uint32_t length = 1;  // bytes of each
    bool is_expected = false;  // the touch itself: of a row that was asked for, or of what one goes on in
  };
  // A touch of what is not there. Which others shall come.
  Ahead touched(std::uint64_t address) {
    for (Stream& s : streams_) {
      if (s.stride == 0) continue;
      if (is_tail(s, address)) return expected();
      const auto distance = static_cast<std::int64_t>(address - s.next);
      const std::int64_t rows = distance / s.stride;
      if (distance % s.stride != 0 || rows < -most_behind || rows > most_skipped) continue;
      s.used = ++clock_;
      if (rows < 0) return expected();
      s.ahead = std::min(s.ahead * 2, most_ahead);
      return go_on(s, s.next, static_cast<std::uint32_t>(rows) + 1 + s.ahead);
    }
    return learn(*nearest(address), address);
  }

 private:
  static Ahead expected() { return {.is_expected = true}; }
  static constexpr std::uint32_t most_ahead = 16;
  static constexpr std::int64_t most_skipped = 32;  // strides whose pages were there
  static constexpr std::int64_t most_behind = 32;   // rows that were passed over
  static constexpr std::int64_t longest = 3 * os::page_bytes;
  static constexpr auto shortest_stride = static_cast<std::int64_t>(3 * os::page_bytes);
  static constexpr std::uint64_t near = std::uint64_t{8} * run_bytes;
  static constexpr auto longest_stride = static_cast<std::int64_t>(near / 2);
  struct Stream {
    std::uint64_t last = 0, next = 0, used = 0;
    std::int64_t distance = 0, stride = 0;
    std::uint32_t ahead = 0;
    std::uint32_t length = 1;
  };

  Ahead learn(Stream& s, std::uint64_t address) {
    const bool is_next_page =
        address % os::page_bytes == 0 && address / os::page_bytes == s.last / os::page_bytes + 1;
    if (s.used != 0 && is_next_page) {
      s.length = std::max(s.length, static_cast<std::uint32_t>(address - s.last) + 1);
      return {};
    }
    const auto distance = s.used == 0 ? 0 : static_cast<std::int64_t>(address - s.last);
    s.stride = is_stride(distance) ? distance : common_stride(distance, s.distance);
    s.distance = distance;
    s.last = address;
    s.used = ++clock_;
    if (s.stride == 0) return {};
    s.ahead = 4;
    return go_on(s, address, 1 + s.ahead);
  }
  // In the pages behind a row of the stream; of which so much is touched, then.
  static bool is_tail(Stream& s, std::uint64_t address) {
    const auto distance = static_cast<std::int64_t>(address - s.next);
    const std::int64_t length = std::abs(s.stride);
    const std::int64_t offset = ((distance % length) + length) % length;
    const std::int64_t rows = distance / s.stride;
    const bool is_tail = address % os::page_bytes == 0 && offset != 0 && rows >= -most_behind &&
                         rows <= most_skipped && offset < longest;
    if (is_tail) s.length = std::max(s.length, static_cast<std::uint32_t>(offset) + 1);
    return is_tail;
  }
  bool is_stride(std::int64_t distance) const {
    return distance != 0 && std::any_of(std::begin(streams_), std::end(streams_),
                                        [=](const Stream& s) { return s.stride == distance; });
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
  // So many rows from there on shall come.
  static Ahead go_on(Stream& s, std::uint64_t first, std::uint32_t rows) {
    s.next = first + static_cast<std::uint64_t>(s.stride) * rows;
    s.last = s.next - static_cast<std::uint64_t>(s.stride);
    return {first, s.stride, rows, s.length};
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
