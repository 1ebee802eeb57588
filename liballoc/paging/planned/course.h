// What the parts of the planned policy share: the schedule in force, and which object of it a block is.
// Belongs to who holds the gate.
#pragma once

#include <algorithm>
#include <cstdint>

#include "liballoc/paging/planned/held_schedule.h"
#include "liballoc/paging/planned/step_births.h"
#include "liballoc/paging/policy/policy_parts.h"

namespace terrace::liballoc {

// Runs [first, end).
struct RunSpan {
  std::uint32_t first = 0;
  std::uint32_t end = 0;
};

struct Course {
  HeldSchedule* schedule = nullptr;  // of the claimed phase
  bool is_followed = false;          // since a period began
  std::uint32_t most_blocks = 0;
  StepBirths births;

  wire::Executor& executor() const { return schedule->executor(); }

  // none: the schedule does not name it.
  std::uint32_t object_of(std::uint32_t block) const {
    if (block == 0 || schedule == nullptr) return none;
    const std::uint32_t birth = births.birth_of(block);
    const std::size_t at = birth == StepBirths::unknown ? schedule->view().find(wire::persistent, block)
                                                        : schedule->view().find(birth, 0);
    return at < schedule->view().objects.size() ? static_cast<std::uint32_t>(at) : none;
  }
  // 0: it does not live.
  std::uint32_t block_of(std::uint32_t object) const {
    const wire::ScheduleObject& o = schedule->view().objects[object];
    if (o.birth != wire::persistent) return o.place == 0 ? births.block_of(o.birth) : 0;
    const bool persists = o.place < most_blocks && births.birth_of(o.place) == StepBirths::unknown;
    return persists ? o.place : 0;
  }
  // The runs that an entry names, as far as they are the block's alone now. The object's bytes are those runs
  // one behind the other; what the schedule says beyond them is nothing.
  RunSpan runs_of(std::uint32_t entry, const KnownBlock& block) const {
    const wire::ScheduleEntry& e = schedule->entry(entry);
    const std::uint32_t first = (block.first + granules_per_run - 1) / granules_per_run;
    const std::uint32_t end = block.granules == 0 ? first : std::max(first, block.end() / granules_per_run);
    const std::uint64_t size = std::uint64_t{end - first} * run_bytes;
    const std::uint64_t begin = std::min(e.begin, size);
    const std::uint64_t bytes = std::min(e.bytes, size - begin);
    return {first + static_cast<std::uint32_t>(begin / run_bytes),
            first + static_cast<std::uint32_t>((begin + bytes + run_bytes - 1) / run_bytes)};
  }
  // Whether the `in` entry's deadline is the next event or before it. One that was given in the period before
  // has a deadline in this one, if not in that.
  bool is_overdue(std::uint32_t entry) const {
    const std::uint32_t now = executor().ordinal();
    const std::uint32_t by = schedule->entry(entry).by;
    if (executor().trigger(entry) <= now) return by <= now + 1;
    return by < schedule->period() || by - schedule->period() <= now + 1;
  }
};

}  // namespace terrace::liballoc
