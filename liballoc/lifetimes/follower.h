// Follows one thread through its part of a claimed phase.
//
// The thread is expected to do what it did in the period that was learned, in its order. What differs is
// bounded: up to `reach` expected events are passed over if the event is found behind them, and an event that
// was passed over and comes later still has its ordinal. An event that is none of these is noise. Each noise
// and each event that never came is a miss; a thread with more than a few among its last 32 events has
// departed.
#pragma once

#include <bit>
#include <cstdint>

#include "liballoc/lifetimes/known_phase.h"

namespace terrace::liballoc {

class Follower {
 public:
  // The thread's next event should be `expected`, an ordinal of the member.
  void begin(const KnownPhase& phase, std::uint32_t member, std::uint32_t expected, bool is_in_step);
  // The event's ordinal, or no_ordinal.
  std::uint32_t match(KnownPhase& phase, std::uint32_t token);

  bool has_departed() const {
    constexpr std::uint64_t in_a_row = 0xFF;
    const auto misses = static_cast<std::uint32_t>(std::popcount(recent_ & UINT32_MAX));
    return misses > most_misses_ || (recent_ & in_a_row) == in_a_row ||
           static_cast<std::uint32_t>(std::popcount(recent_)) > most_misses_ * 3 / 2;
  }
  // Whether none of its last events was a miss.
  bool is_well() const { return (recent_ & 0xFFU) == 0; }
  std::uint32_t expected() const { return expected_; }
  // Ends of its part of a period since begin().
  std::uint32_t periods() const { return periods_; }
  // The period of the last event that was matched.
  std::uint32_t last_period() const { return last_period_; }
  // Since begin(), what was no match included.
  std::uint32_t events() const { return events_; }
  bool is_followed() const { return is_followed_; }
  void leave() { is_followed_ = false; }

  static constexpr std::uint32_t window = 32;  // events

 private:
  static constexpr std::uint32_t most_passed = 16;
  struct Passed {
    std::uint32_t ordinal = 0;
    std::uint32_t at = 0;  // event of this follower
  };

  std::uint32_t take(KnownPhase& phase, std::uint32_t ordinal);
  std::uint32_t take_passed(KnownPhase& phase, std::uint32_t token);
  std::uint32_t look_ahead(KnownPhase& phase, std::uint32_t token);
  std::uint32_t look_everywhere(const KnownPhase& phase, std::uint32_t token);
  void advance(const KnownPhase& phase);
  void pass_over(KnownPhase& phase, std::uint32_t ordinal);
  void drop_oldest(KnownPhase& phase);
  void miss() { recent_ = (recent_ << 1U) | 1U; }

  Passed passed_[most_passed];
  std::uint32_t passed_count_ = 0;
  std::uint32_t expected_ = 0;
  std::uint32_t last_ = 0;    // the member's last ordinal
  std::uint64_t recent_ = 0;  // the last 64 events, the latest lowest: 1 for a miss
  std::uint32_t events_ = 0;
  std::uint32_t periods_ = 0;
  std::uint32_t last_period_ = 0;
  std::uint32_t reach_ = 0;
  std::uint32_t most_misses_ = 0;
  bool is_in_step_ = false;
  bool is_followed_ = false;
};

}  // namespace terrace::liballoc
