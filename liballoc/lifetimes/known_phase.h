// One known phase: what one period of it looks like. An array of events in the order in which they came when
// the phase was learned; the events of one thread are linked to a ring, in the thread's own order, so that
// each thread can be followed by itself whatever the others do meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>

#include "liballoc/lifetimes/repeats/tokens.h"

namespace terrace::liballoc {

inline constexpr std::uint32_t most_members = 8;  // threads of one phase; the first is its lead

class KnownPhase {
 public:
  static constexpr std::uint32_t most_events = 1U << 16;
  static constexpr std::size_t bytes = most_events * (sizeof(std::uint32_t) + sizeof(std::uint16_t) + 1);

  struct Member {
    std::uint32_t thread = 0;
    std::uint32_t events = 0;  // of one period
    std::uint32_t first = 0;   // ordinal
  };

  void use(std::byte* memory) {
    tokens_ = reinterpret_cast<std::uint32_t*>(memory);
    next_ = reinterpret_cast<std::uint16_t*>(memory + most_events * sizeof(std::uint32_t));
    missed_ = reinterpret_cast<std::uint8_t*>(next_ + most_events);
  }
  void begin(std::uint32_t new_id) {
    id = new_id;
    length = members = 0;
    allocated_kib = 0;
  }
  void add(std::uint32_t token, std::uint32_t member) {
    tokens_[length] = (token << member_bits) | member;
    missed_[length++] = 0;
  }
  // After the last add(): rotates the events so that number `first` has ordinal 0, and links them.
  void finish(std::uint32_t first);

  std::uint32_t token(std::uint32_t ordinal) const { return tokens_[ordinal] >> member_bits; }
  std::uint32_t member(std::uint32_t ordinal) const { return tokens_[ordinal] & (most_members - 1); }
  // Of the same thread.
  std::uint32_t next(std::uint32_t ordinal) const { return next_[ordinal]; }
  // The first of the member's events at or after `ordinal`.
  std::uint32_t first_from(std::uint32_t ordinal, std::uint32_t member) const;

  // Periods in a row without this event. What was missed twice is not waited for.
  void miss(std::uint32_t ordinal) {
    if (missed_[ordinal] < UINT8_MAX) ++missed_[ordinal];
  }
  void meet(std::uint32_t ordinal) { missed_[ordinal] = 0; }
  bool is_optional(std::uint32_t ordinal) const { return missed_[ordinal] >= 2; }

  const Member& lead() const { return member_list[0]; }

  std::uint32_t id = 0;  // 0: none is here
  std::uint32_t length = 0;
  std::uint32_t members = 0;
  Member member_list[most_members];
  std::uint64_t allocated_kib = 0;  // in a period
  std::uint64_t last_seen = 0;      // number of the event
  std::uint32_t entry = 0;          // where the program entered it last time: an ordinal of the lead
  bool has_marks = false;

 private:
  static constexpr unsigned member_bits = 32 - token_bits;
  static_assert(most_members <= 1U << member_bits);

  std::uint32_t* tokens_ = nullptr;
  std::uint16_t* next_ = nullptr;
  std::uint8_t* missed_ = nullptr;
};

}  // namespace terrace::liballoc
