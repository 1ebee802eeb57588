// An event clock that is run over a script, and what it said beside what is true.
#pragma once

#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "liballoc/lifetimes/event_clock.h"
#include "tests/liballoc/lifetimes/programs.h"

namespace terrace::liballoc::test {

struct Watched {
  EventClock clock;
  std::vector<StepPlace> places;

  Watched() { REQUIRE(clock.initialise(1U << 16) == 0); }
  ~Watched() { clock.finish(); }
  void run(const std::vector<LabelledEvent>& events) {
    for (const LabelledEvent& e : events) {
      places.push_back(clock.on_event(e.event));
      const StepPlace& p = places.back();
      REQUIRE((p.phase != 0) == clock.is_claimed());
      if (p.claimed) REQUIRE(p.ordinal < p.length);
      if (p.departed) REQUIRE((p.phase == 0 || p.claim_began));
    }
  }
};

// For each step of the phase (they follow each other in `events` or not): events that were claimed, of all.
struct StepResult {
  std::uint32_t step = 0;
  std::uint32_t events = 0;
  std::uint32_t claimed = 0;
  std::set<std::uint32_t> lengths;  // of the claims
  std::set<std::uint32_t> phases;
};

inline std::vector<StepResult> steps_of(const std::string& phase, const std::vector<LabelledEvent>& events,
                                        const std::vector<StepPlace>& places) {
  std::vector<StepResult> steps;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const Truth& truth = events[i].truth;
    if (truth.phase != phase) continue;
    if (steps.empty() || steps.back().step != truth.step) steps.push_back({truth.step, 0, 0, {}, {}});
    StepResult& s = steps.back();
    ++s.events;
    if (!places[i].claimed) continue;
    ++s.claimed;
    s.lengths.insert(places[i].length);
    s.phases.insert(places[i].phase);
  }
  return steps;
}

// Whether, wherever phase `id` is claimed, the same event of the program's step always has the same ordinal,
// and another event another. Returns the number of events for which it is not so.
inline std::size_t wrong_ordinals(const std::vector<LabelledEvent>& events,
                                  const std::vector<StepPlace>& places, std::uint32_t id,
                                  const std::string& phase) {
  using Key = std::pair<std::uint32_t, std::uint32_t>;  // thread and ordinal in the step
  std::map<Key, std::uint32_t> ordinal_of;
  std::map<std::uint32_t, Key> key_of;
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (!places[i].claimed || places[i].phase != id) continue;
    if (!events[i].truth.phase.empty() && events[i].truth.phase != phase) continue;
    if (events[i].truth.phase.empty()) {
      ++wrong;
      continue;
    }
    const Key key{events[i].event.thread, events[i].truth.ordinal};
    const auto [ordinal, is_new_key] = ordinal_of.try_emplace(key, places[i].ordinal);
    const auto [owner, is_new_ordinal] = key_of.try_emplace(places[i].ordinal, key);
    if (ordinal->second != places[i].ordinal || owner->second != key) ++wrong;
  }
  return wrong;
}

}  // namespace terrace::liballoc::test
