// The event clock: counts what a program allocates and frees in large blocks, finds the period in it, and
// says of each event which one of its step it is.
//
// A training step repeats: that is what Sentinel (Ren et al., HPCA 2021, section 3) and Capuchin (Peng et
// al., ASPLOS 2020, section 3.1) build on, and both are told by the framework where a step begins. Here
// nothing is told. The sequence of kinds and sizes, for each thread by itself, is all there is; mark() is for
// programs that can say more.
//
//     event ──► its thread's history ──► repeats ──► evidence ──► assembly ──► a known phase
//       │                                                                          │
//       └──────► followers, one a thread, while a phase is claimed ◄───────────────┤
//       └──────► tries of the other known phases (phase_book.h)     ◄──────────────┘
//
// Belongs to one thread at a time. After initialise() it asks the system for nothing: no memory, no time, no
// files. All its memory is mapped there, some 8 MiB and 28 bytes for each block that may live, of which the
// kernel gives what is written: a program without events pays nothing, one whose step has a thousand events
// some 1.5 MiB.
#pragma once

#include <cstddef>
#include <cstdint>

#include "liballoc/lifetimes/births.h"
#include "liballoc/lifetimes/follower.h"
#include "liballoc/lifetimes/phase_book.h"
#include "liballoc/lifetimes/repeats/clock_event.h"
#include "liballoc/lifetimes/repeats/repeats.h"
#include "liballoc/lifetimes/repeats/threads.h"

namespace terrace::liballoc {

class EventClock {
 public:
  constexpr EventClock() = default;
  EventClock(const EventClock&) = delete;
  EventClock& operator=(const EventClock&) = delete;

  // 0 or ENOMEM. `most_blocks`: ids of blocks are smaller; of others no birth is known.
  int initialise(std::uint32_t most_blocks);
  // Gives the memory back. Not at the end of a process: the agent's thread may still run then.
  void finish();

  // Only after initialise(). Some tens of nanoseconds. When a phase is learned the last turns are looked
  // through: up to some milliseconds.
  StepPlace on_event(const ClockEvent& event);
  // The thread's own word that a step begins (`name` 0), or where in it the thread is. It counts as an event
  // of the sequence; a phase in which the program says where steps begin begins there.
  StepPlace mark(std::uint32_t thread, std::uint64_t name = 0);

  bool is_claimed() const { return claimed_ != PhaseBook::none; }
  // The claimed phase's id and the events of its period; 0 and 0.
  std::uint32_t phase() const { return is_claimed() ? book_[claimed_].id : 0; }
  std::uint32_t length() const { return is_claimed() ? book_[claimed_].length : 0; }
  ClockCounts counts() const;

 private:
  static constexpr std::uint8_t no_member = UINT8_MAX;

  StepPlace note(std::uint32_t thread, std::uint32_t token);
  std::uint32_t enter(std::uint32_t thread, StepPlace* out);
  void step(std::uint32_t place, std::uint32_t token, StepPlace* out);
  void follow(std::uint32_t place, std::uint32_t token, StepPlace* out);
  void follow_lead(StepPlace* out);
  void check_members();
  void depart(StepPlace* out);
  void describe(std::uint32_t ordinal, StepPlace* out) const;

  void come_back(std::uint32_t place, StepPlace* out);
  void claim_known(std::uint32_t slot, std::uint32_t place, std::uint32_t expected, std::uint32_t run,
                   StepPlace* out);
  void begin_claim(std::uint32_t slot, std::uint32_t start, StepPlace* out);
  void learn(std::uint32_t place, StepPlace* out);
  bool is_period(std::uint32_t place, Repeat* repeat) const;
  bool is_worth_more(std::uint32_t place, const Repeat& repeat) const;
  bool is_part_of_known(std::uint32_t place, std::uint32_t lag) const;
  bool claim_same(std::uint32_t place, const Repeat& repeat, StepPlace* out);
  void claim_new(std::uint32_t place, const Repeat& repeat, StepPlace* out);
  void retire_parts(std::uint32_t slot, std::uint32_t place, std::uint32_t lag);

  void born(const ClockEvent& event, std::uint32_t place, std::uint32_t token, const StepPlace& out);
  void freed(const BornBlock& block, std::uint32_t place, StepPlace* out) const;
  std::uint32_t period_of(std::uint32_t place) const;

  std::byte* memory_ = nullptr;
  FollowedThreads threads_;
  RecentGrams recent_;
  PhaseBook book_;
  Births births_;
  Follower followers_[most_members];
  std::uint8_t member_of_[FollowedThreads::most] = {};  // of the claimed phase, by the thread's place
  ClockCounts counts_;
  std::uint32_t claimed_ = PhaseBook::none;  // slot of the book
  std::uint32_t claim_ = 0;                  // number of the claim
  std::uint32_t lead_place_ = 0;
  std::uint32_t periods_seen_ = 0;  // of the lead, in this claim
  std::uint32_t period_start_ = 0;  // position
  std::uint32_t last_id_ = 0;
  bool period_begins_ = false;  // the lead's next event is the first of a period
};

}  // namespace terrace::liballoc
