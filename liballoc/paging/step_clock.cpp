#include "liballoc/paging/step_clock.h"

#include "liballoc/base/os.h"

namespace terrace::liballoc {
namespace {

ClockEvent::Kind kind_of(BlockChange change) {
  switch (change) {
    case BlockChange::allocated:
      return ClockEvent::Kind::allocated;
    case BlockChange::grown:
      return ClockEvent::Kind::grown;
    case BlockChange::freed:
    case BlockChange::marked:
      break;
  }
  return ClockEvent::Kind::freed;
}

}  // namespace

void StepClock::begin(std::uint32_t most_blocks) {
  if (!listens_) listens_ = clock_.initialise(most_blocks) == 0;
}

void StepClock::on_block(const BlockEvent& event, std::uint32_t granules) {
  if (!listens_) return;
  const StepPlace place = clock_.on_event({.kind = kind_of(event.change),
                                           .thread = event.thread,
                                           .block = event.block,
                                           .bytes = std::uint64_t{granules} * granule_bytes});
  tell_all(event, granules, place);
}

void StepClock::on_mark(const BlockEvent& event) {
  if (!listens_) return;
  ++accounts_.counts.marks;
  tell_all(event, 0, clock_.mark(event.thread, event.call_site));
}

void StepClock::tell_all(const BlockEvent& event, std::uint32_t granules, const StepPlace& place) {
  if (place.departed) {
    ++accounts_.counts.departures;
    accounts_.tell_step(0, 0);
  }
  if (place.departed || place.claim_began) is_timed_ = false;
  if (place.period_began) period_began(place);
  for (std::size_t i = 0; i < count_; ++i) listeners_[i]->on_step_event(event, granules, place);
}

void StepClock::period_began(const StepPlace& place) {
  const std::uint64_t now = os::now_ns();
  terrace_statistics& counts = accounts_.counts;
  if (is_timed_) {
    ++counts.steps;
    counts.steps_ns += now - began_ns_;
    counts.steps_stall_ns += counts.stall_ns - stall_ns_;
  }
  is_timed_ = true;
  began_ns_ = now;
  stall_ns_ = counts.stall_ns;
  accounts_.tell_step(place.phase, place.length);
}

}  // namespace terrace::liballoc
