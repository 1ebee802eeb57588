#include "liballoc/paging/planned/schedule_store.h"

#include <algorithm>

namespace terrace::liballoc {

// A phase's newest period alone counts: a plan for an older one is of no use any more.
void ScheduleStore::expect(std::uint32_t phase, std::uint64_t period_hash) {
  if (phase == 0) return;
  for (Sent& sent : sent_) {
    if (sent.phase != phase) continue;
    sent.period_hash = period_hash;
    return;
  }
  sent_[next_sent_++ % most_expected] = {phase, period_hash};
}

bool ScheduleStore::is_expected(const PlanOffer& offer) const {
  return std::any_of(sent_, sent_ + most_expected, [&](const Sent& sent) {
    return offer.phase != 0 && sent.phase == offer.phase && sent.period_hash == offer.period_hash;
  });
}

std::size_t ScheduleStore::find(std::uint32_t phase) const {
  std::size_t i = 0;
  while (i < most && !(slots_[i].held.is_open() && slots_[i].phase == phase)) ++i;
  return i;
}

// A slot that is free, or the one that was not used for longest and is not in use.
std::size_t ScheduleStore::place_for(std::uint32_t phase) {
  std::size_t best = find(phase);
  if (best != most) return best;
  for (std::size_t i = 0; i < most; ++i) {
    if (i == used_) continue;
    if (!slots_[i].held.is_open()) return i;
    if (best == most || slots_[i].used_at < slots_[best].used_at) best = i;
  }
  return best;
}

const char* ScheduleStore::take(const PlanOffer& offer) {
  if (!is_expected(offer)) return "it is for a period that was not asked about";
  HeldSchedule held;
  const char* const why = held.open(offer);
  if (why[0] != '\0') return why;
  const std::size_t at = place_for(offer.phase);
  Slot& slot = slots_[at];
  HeldSchedule& place = at == used_ ? slot.newer : slot.held;
  place.close();
  place = held;
  if (at != used_) slot.newer.close();
  slot.phase = offer.phase;
  if (at != used_) slot.used_at = ++uses_;
  return "";
}

bool ScheduleStore::is_outdated(std::uint32_t phase) const {
  return used_ != none && (slots_[used_].phase != phase || slots_[used_].newer.is_open());
}

HeldSchedule* ScheduleStore::use(std::uint32_t phase) {
  used_ = none;
  const std::size_t at = find(phase);
  if (at == most) return nullptr;
  Slot& slot = slots_[at];
  if (slot.newer.is_open()) {
    slot.held.close();
    slot.held = slot.newer;
    slot.newer = HeldSchedule();
  }
  slot.used_at = ++uses_;
  used_ = at;
  return &slot.held;
}

void ScheduleStore::forget_all() {
  for (Slot& slot : slots_) {
    slot.held.close();
    slot.newer.close();
    slot = Slot{};
  }
  used_ = none;
}

}  // namespace terrace::liballoc
