// What the event clock reads and what it answers (event_clock.h).
#pragma once

#include <cstdint>

namespace terrace::liballoc {

// What a thread of the program did to a large block.
struct ClockEvent {
  enum class Kind : std::uint8_t { allocated, grown, freed };
  Kind kind = Kind::allocated;
  std::uint8_t alignment_log2 = 0;
  std::uint32_t thread = 0;  // any number that is the thread's own for as long as it lives
  std::uint32_t block = 0;   // of a live block; used again after a free
  std::uint64_t bytes = 0;   // the whole block's; not read of what is freed
};

inline constexpr std::uint32_t no_ordinal = UINT32_MAX;

enum class Birth : std::uint8_t {
  unknown,
  before,  // the period that runs: what is freed here had outlived the end of a period
  here     // in the period that runs
};

// Which event of which known phase an event is.
struct StepPlace {
  std::uint32_t phase = 0;   // the claimed phase's id, also where the event is none of it; 0: none is claimed
  std::uint32_t length = 0;  // events of one period of that phase
  std::uint32_t ordinal = 0;           // < length if `claimed`
  std::uint32_t born_at = no_ordinal;  // of what is freed: the ordinal of its allocation, if it was claimed
  Birth birth = Birth::unknown;        // of what is freed
  bool claimed = false;                // the event is number `ordinal` of the phase
  bool period_began = false;
  bool claim_began = false;  // of a phase, new or known, perhaps instead of another
  bool departed = false;     // the program has left the phase that was claimed
};

struct ClockCounts {
  std::uint64_t events = 0;
  std::uint64_t claimed_events = 0;
  std::uint64_t noise_events = 0;  // while a phase was claimed, and none of it
  std::uint64_t periods = 0;       // that ended while they were claimed
  std::uint64_t claims = 0;
  std::uint64_t departures = 0;
  std::uint64_t phases_learned = 0;
  std::uint32_t phases_known = 0;  // now
};

}  // namespace terrace::liballoc
