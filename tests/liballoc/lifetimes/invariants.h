// Runs a program that bytes spell and ends the process if the event clock breaks a promise: for the fuzzer,
// and for random bytes in a unit test.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "liballoc/lifetimes/event_clock.h"

namespace terrace::liballoc::test {

inline void promise(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

class CheckedClock {
 public:
  CheckedClock() { promise(clock.initialise(256) == 0, "memory for the clock"); }
  ~CheckedClock() { clock.finish(); }

  void on_event(const ClockEvent& e) { check(clock.on_event(e), e.kind == ClockEvent::Kind::freed); }
  void mark(std::uint32_t thread) { check(clock.mark(thread), false); }

  EventClock clock;

 private:
  void check(const StepPlace& p, bool is_free) {
    const ClockCounts now = clock.counts();
    promise(p.phase == clock.phase() && p.length == clock.length(), "the place names the claimed phase");
    promise((p.phase != 0) == clock.is_claimed(), "0 is no phase");
    promise(!p.claimed || p.ordinal < p.length, "an ordinal is less than the length");
    promise(!p.claimed || p.phase != 0, "only a claimed phase's events are claimed");
    promise(p.length <= KnownPhase::most_events, "a phase has a bound");
    promise(!p.departed || p.phase == 0 || p.claim_began, "a departure ends the claim at once");
    promise(!p.period_began || p.phase != 0, "only a claimed phase has periods");
    promise(is_free || p.birth == Birth::unknown, "only what is freed was born");
    promise(p.born_at == no_ordinal || (p.phase != 0 && p.born_at < p.length), "a birth is in the phase");
    promise(p.claim_began || p.departed || p.phase == last_, "a phase changes with a claim");
    promise(now.events == before_.events + 1, "events are counted");
    promise(now.departures == before_.departures + (p.departed ? 1 : 0), "departures are counted");
    promise(now.claims == before_.claims + (p.claim_began ? 1 : 0), "claims are counted");
    promise(now.phases_known <= PhaseBook::most, "phases have a bound");
    before_ = now;
    last_ = p.phase;
  }

  ClockCounts before_;
  std::uint32_t last_ = 0;
};

// Each pair of bytes is an event (what, with which size or block and by which thread), or the end of a loop:
// the last few of them come again up to 63 times, now and then with some left out.
inline ClockCounts run_spelled_program(const std::uint8_t* data, std::size_t size) {
  CheckedClock checked;
  std::vector<std::uint16_t> words;
  std::minstd_rand random(1);
  constexpr std::size_t most_words = 20'000;
  const auto perform = [&](std::uint16_t word) {
    const std::uint32_t thread = (word >> 3U) & 3U, what = (word >> 5U) & 63U, block = (word >> 8U) & 255U;
    switch (word & 7U) {
      case 0:
      case 1:
      case 2:
        checked.on_event({ClockEvent::Kind::allocated, 6, thread, block, (1ULL + what) << 18U});
        break;
      case 6:
        checked.on_event({ClockEvent::Kind::grown, 6, thread * 1000, block, (1ULL + what) << 19U});
        break;
      case 7:
        if (what == 0) checked.mark(thread + block);  // sometimes more threads than are followed
        break;
      default:
        checked.on_event({ClockEvent::Kind::freed, 0, thread, block, 0});
    }
  };
  for (std::size_t i = 0; i + 1 < size && words.size() < most_words; i += 2) {
    const auto word = static_cast<std::uint16_t>(data[i] | (data[i + 1] << 8U));
    const std::size_t back = std::min<std::size_t>(words.size(), 2 + ((word >> 4U) & 255U));
    const bool is_loop = (word & 15U) == 15U && back > 2;
    if (!is_loop) {
      words.push_back(word);
      perform(word);
      continue;
    }
    const std::size_t from = words.size() - back;
    for (std::size_t turn = 0; turn < (word >> 10U) && words.size() < most_words; ++turn) {
      for (std::size_t n = 0; n < back; ++n) {
        if (random() % 200 == 0) continue;
        words.push_back(words[from + n]);
        perform(words.back());
      }
    }
  }
  return checked.clock.counts();
}

}  // namespace terrace::liballoc::test
