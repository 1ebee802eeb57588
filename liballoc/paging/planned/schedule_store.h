// The schedules that the daemon sent: one for each of the phases followed last.
//
// A schedule is taken only for a period that this job sent (expect()), since only then do its ordinals mean
// events of this program. One that comes for the phase that is followed now waits until the next period
// begins. Without a daemon the last ones stay. Belongs to who holds the gate; allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "liballoc/paging/planned/held_schedule.h"

namespace terrace::liballoc {

class ScheduleStore {
 public:
  static constexpr std::size_t most = 4;
  static constexpr std::size_t most_expected = 8;

  constexpr ScheduleStore() = default;

  // The job has sent this period to be planned: a schedule for it may come, now or at any later time.
  void expect(std::uint32_t phase, std::uint64_t period_hash);
  // Checks and keeps what was offered. "" or why not, as a sentence without a full stop (static); then what
  // was there before stays.
  const char* take(const PlanOffer& offer);

  // The schedule of the phase, which is followed from now on; nullptr: none. The newest one comes into force
  // here: so only when a period begins, and with no pointer to an older one left (is_outdated()).
  HeldSchedule* use(std::uint32_t phase);
  // Whether use() would give another one than the one in force, which it unmaps.
  bool is_outdated(std::uint32_t phase) const;
  // None is in use any more.
  void let_go() { used_ = none; }
  void forget_all();

 private:
  static constexpr std::size_t none = most;
  struct Slot {
    std::uint32_t phase = 0;
    std::uint64_t used_at = 0;  // counts uses
    HeldSchedule held;
    HeldSchedule newer;
  };
  struct Sent {
    std::uint32_t phase = 0;
    std::uint64_t period_hash = 0;
  };

  std::size_t find(std::uint32_t phase) const;
  std::size_t place_for(std::uint32_t phase);
  bool is_expected(const PlanOffer& offer) const;

  Slot slots_[most];
  Sent sent_[most_expected];
  std::size_t next_sent_ = 0;
  std::size_t used_ = none;
  std::uint64_t uses_ = 0;
};

}  // namespace terrace::liballoc
