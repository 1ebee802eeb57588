#include "liballoc/paging/planned/plan_follower.h"

#include <algorithm>

namespace terrace::liballoc {

int PlanFollower::initialise(std::uint32_t most_blocks) {
  course_.most_blocks = most_blocks;
  return course_.births.initialise(most_blocks);
}

// ---- events -----------------------------------------------------------------------------------------------

void PlanFollower::on_event(const BlockEvent& event, const StepPlace& place) {
  if (event.change == BlockChange::freed) free_block(event.block);
  if (place.departed || place.claim_began) leave_phase();
  if (course_.is_followed && !fits_budget()) stop_following();
  if (place.period_began) begin_period(place);
  if (!place.claimed) return;
  length_ = place.length;
  ordinal_ = place.ordinal + 1;
  if (event.change == BlockChange::allocated) {
    course_.births.born(event.block, place.ordinal);
    const std::uint32_t object = course_.object_of(event.block);
    if (object != none) course_.schedule->begin_life(object, place.ordinal);
  }
  if (course_.is_followed) go_to(ordinal_);
}

void PlanFollower::free_block(std::uint32_t block) {
  if (const std::uint32_t object = course_.object_of(block); object != none) {
    course_.executor().forget(object);
    leaves_.forget(object);
    returns_.forget(object);
  }
  course_.births.forget(block);
}

void PlanFollower::leave_phase() {
  stop_following();
  course_.schedule = nullptr;
  course_.births.forget_all();
  store_.let_go();
  length_ = ordinal_ = 0;
}

void PlanFollower::begin_period(const StepPlace& place) {
  parts_.accounts.counts.planned_steps += course_.is_followed ? 1 : 0;
  if (course_.schedule == nullptr || store_.is_outdated(place.phase)) choose(place);
  if (course_.schedule == nullptr || !fits_budget()) return stop_following();
  course_.executor().begin_period();
  last_late_ = none;
  if (!course_.is_followed) begin_following();
}

// What it unmaps is let go of first.
void PlanFollower::choose(const StepPlace& place) {
  stop_following();
  course_.schedule = nullptr;
  HeldSchedule* const held = store_.use(place.phase);
  if (held != nullptr && held->period() == place.length) course_.schedule = held;
}

void PlanFollower::begin_following() {
  course_.is_followed = true;
  const std::size_t objects = course_.schedule->view().objects.size();
  for (std::uint32_t object = 0; object < objects; ++object) {
    course_.executor().forget(object);
    course_.schedule->begin_life(object, 0);
  }
}

void PlanFollower::stop_following() {
  if (!course_.is_followed) return;
  leaves_.stop();
  returns_.stop();
  course_.executor().depart();
  course_.is_followed = false;
}

bool PlanFollower::fits_budget() const {
  const std::uint64_t planned = course_.schedule->budget_bytes();
  return parts_.budget.bytes() + parts_.budget.kept_bytes() >= planned - planned / 20;
}

void PlanFollower::on_fork() {
  stop_following();
  leave_phase();
  store_.forget_all();
}

// ---- entries ----------------------------------------------------------------------------------------------

void PlanFollower::go_to(std::uint32_t ordinal) {
  wire::Executor& executor = course_.executor();
  executor.advance(ordinal);
  for (std::uint32_t entry = executor.take(); entry != none; entry = executor.take()) {
    course_.schedule->pass(entry);
    ask(entry);
  }
  returns_.hurry_overdue();
}

// Only moves are carried out. What lives is never dropped, whatever a plan says; a free drops what does not.
void PlanFollower::ask(std::uint32_t entry) {
  const wire::ScheduleEntry& e = course_.schedule->entry(entry);
  if (wire::moves(e.action) && course_.block_of(e.object) != 0) course_.executor().ask(entry, 0);
}

std::uint32_t PlanFollower::events_to_trigger() const {
  if (course_.schedule == nullptr || length_ == 0) return 0;
  const std::uint32_t to_next_period = length_ - std::min(length_, ordinal_) + 1;
  if (!course_.is_followed) return to_next_period;
  const std::uint32_t trigger = course_.executor().next_trigger();
  return trigger == none ? to_next_period : std::max(trigger - std::min(trigger, ordinal_), 1U);
}

// ---- runs -------------------------------------------------------------------------------------------------

void PlanFollower::on_missing(std::uint32_t n) {
  if (!course_.is_followed) return;
  const std::uint32_t object = course_.object_of(parts_.runs[n].block);
  const std::uint32_t entry = object == none ? none : returns_.awaited(object, n);
  terrace_statistics& counts = parts_.accounts.counts;
  if (entry == none) {
    ++counts.unplanned_faults;
    return;
  }
  ++counts.planned_late;
  if (entry != last_late_) course_.executor().late(entry);
  last_late_ = entry;
  course_.executor().hurry(entry);
}

std::uint32_t PlanFollower::unneeded_for(std::uint32_t n) const {
  if (!course_.is_followed) return none;
  const std::uint32_t object = course_.object_of(parts_.runs[n].block);
  if (object == none) return none;
  const std::uint32_t next = course_.schedule->next_entry(object);
  if (next == none) return 0;
  const wire::ScheduleEntry& e = course_.schedule->entry(next);
  const std::uint32_t period = course_.schedule->period();
  const std::uint32_t until = (e.action == wire::Action::in ? e.by : e.at) % period;
  const std::uint32_t now = course_.executor().ordinal() % period;
  return until >= now ? until - now : until + period - now;
}

}  // namespace terrace::liballoc
