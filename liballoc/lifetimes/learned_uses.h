// When in the period one object is touched, as far as that was seen.
//
// Seen is what was away and was asked for: a touch of what is in DRAM leaves no trace. So each period shows
// some uses of an object and hides others, and what several periods showed is put together here. A use is
// an interval of the period (interval k runs from event k to the event behind it), with two counts: periods
// in which the object was touched then, and periods in which a touch would have been seen. It counts if it
// was there in at least half of these.
//
// Sixteen intervals are kept, in the order from the object's birth on. Where there are more, the one between
// the two that are closest to each other goes: a plan moves an object in its long pauses, and those stay.
//
// Pure, 132 bytes, no allocation.
#pragma once

#include <cstdint>

namespace terrace::liballoc {

struct LearnedUse {
  std::uint32_t interval = 0;
  std::uint16_t period = 0;  // the last one in which it was judged, modulo 2^16
  std::uint8_t seen = 0;     // periods
  std::uint8_t possible = 0;

  bool counts() const { return 2 * seen >= possible; }
};

// Where the program is, counted on over the periods: interval `interval` of period `period`.
struct PeriodPosition {
  std::uint32_t period = 0;
  std::uint32_t interval = 0;

  bool operator==(const PeriodPosition&) const = default;
  std::uint64_t number(std::uint32_t length) const { return std::uint64_t{period} * length + interval; }
  static PeriodPosition of_number(std::uint64_t number, std::uint32_t length) {
    return {static_cast<std::uint32_t>(number / length), static_cast<std::uint32_t>(number % length)};
  }
};

class LearnedUses {
 public:
  static constexpr std::uint32_t most = 16;

  // Of an object that is born at event `born` of a period of `length` events; 0 of what persists.
  struct Frame {
    std::uint32_t born = 0;
    std::uint32_t length = 0;
  };

  // It was touched. True: what counts has changed.
  bool note_touch(const Frame& frame, PeriodPosition at);
  // It was away from `from` to `to` and nobody asked for it in the intervals between them. True: what counts
  // has changed.
  bool note_idle(const Frame& frame, PeriodPosition from, PeriodPosition to);

  std::uint32_t size() const { return size_; }
  const LearnedUse& operator[](std::uint32_t i) const { return uses_[i]; }
  // Of those, how many count.
  std::uint32_t counted() const;

 private:
  static constexpr std::uint8_t most_periods = 64;  // counted; then both counts are halved
  static constexpr std::uint8_t enough_periods = 8;

  static void judge(LearnedUse* use, std::uint32_t period, bool is_seen);
  void insert(const Frame& frame, const LearnedUse& use);
  void remove(std::uint32_t i);
  void make_room(const Frame& frame);

  LearnedUse uses_[most];
  std::uint32_t size_ = 0;
};

}  // namespace terrace::liballoc
