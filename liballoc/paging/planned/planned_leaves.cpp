#include "liballoc/paging/planned/planned_leaves.h"

namespace terrace::liballoc {

bool PlannedLeaves::are_due() const {
  return course_.is_followed && (entry_ != none || course_.executor().next(lane) != none);
}

bool PlannedLeaves::may_leave(std::uint32_t n) const {
  const Run& r = parts_.runs[n];
  return r.block == block_ && r.state == RunState::resident && r.live > 0 && r.pins == 0 && !r.in_flight;
}

std::uint32_t PlannedLeaves::next() {
  if (!course_.is_followed) return none;
  do {
    while (runs_.first < runs_.end) {
      const std::uint32_t n = runs_.first++;
      if (may_leave(n)) return n;
    }
  } while (begin_next());
  return none;
}

// What has been offered is over for the executor: from here on an `in` of it is asked for, not called off.
bool PlannedLeaves::begin_next() {
  wire::Executor& executor = course_.executor();
  if (entry_ != none) executor.done(entry_);
  entry_ = executor.next(lane);
  runs_ = RunSpan{};
  if (entry_ == none) return false;
  executor.start(entry_);
  block_ = course_.block_of(course_.schedule->entry(entry_).object);
  if (block_ != 0) runs_ = course_.runs_of(entry_, parts_.blocks[block_]);
  return true;
}

void PlannedLeaves::forget(std::uint32_t object) {
  if (entry_ != none && course_.schedule->entry(entry_).object == object) stop();
}

void PlannedLeaves::stop() {
  if (entry_ != none) course_.executor().abort(entry_);
  entry_ = none;
  runs_ = RunSpan{};
}

}  // namespace terrace::liballoc
