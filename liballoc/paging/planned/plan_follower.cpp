#include "liballoc/paging/planned/plan_follower.h"

#include <algorithm>

#include "liballoc/base/os.h"

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
  ordinal_ = place.ordinal;
  if (event.change == BlockChange::allocated) course_.births.born(event.block, place.ordinal);
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
  began_ns_ = 0;
  length_ = ordinal_ = 0;
}

void PlanFollower::begin_period(const StepPlace& place) {
  note_step(place);
  parts_.accounts.counts.planned_steps += course_.is_followed ? 1 : 0;
  if (course_.schedule == nullptr || store_.is_outdated(place.phase)) choose(place);
  const bool is_good = course_.schedule != nullptr && (!judges_ || trials_.of(place.phase).follows());
  if (!is_good || !fits_budget()) {
    stop_following();
    was_left_ = false;
    return;
  }
  course_.executor().begin_period();
  last_late_ = none;
  if (!course_.is_followed) begin_following();
}

// One in which the plan was left is neither with it nor without. What finding out about the step took is no
// fault of either.
void PlanFollower::note_step(const StepPlace& place) {
  const std::uint64_t now = os::now_ns() - parts_.accounts.counts.probe_ns;
  PlanTrial& trial = trials_.of(place.phase);
  const std::uint32_t before = trial.refusals();
  if (began_ns_ != 0 && !was_left_) trial.note_step(now - began_ns_, course_.is_followed);
  parts_.accounts.counts.plan_refusals += trial.refusals() - before;
  began_ns_ = now;
  was_left_ = false;
}

// What it unmaps is let go of first.
void PlanFollower::choose(const StepPlace& place) {
  stop_following();
  course_.schedule = nullptr;
  HeldSchedule* const held = store_.use(place.phase);
  if (held == nullptr || held->period() != place.length) return;
  course_.schedule = held;
  trials_.take_plan(place.phase, held->budget_bytes());
}

void PlanFollower::begin_following() {
  course_.is_followed = true;
  const std::size_t objects = course_.schedule->view().objects.size();
  for (std::uint32_t object = 0; object < objects; ++object) course_.executor().forget(object);
}

void PlanFollower::stop_following() {
  if (!course_.is_followed) return;
  leaves_.stop();
  returns_.stop();
  course_.executor().depart();
  course_.is_followed = false;
  was_left_ = true;
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
  for (std::uint32_t entry = executor.take(); entry != none; entry = executor.take()) ask(entry);
  returns_.hurry_overdue();
}

// Only moves are carried out. What lives is never dropped, whatever a plan says; a free drops what does not.
void PlanFollower::ask(std::uint32_t entry) {
  const wire::ScheduleEntry& e = course_.schedule->entry(entry);
  if (wire::moves(e.action) && course_.block_of(e.object) != 0) course_.executor().ask(entry, 0);
}

std::uint32_t PlanFollower::events_to_trigger() const {
  if (course_.schedule == nullptr || length_ == 0) return 0;
  const std::uint32_t to_next_period = length_ - std::min(length_, ordinal_);
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

}  // namespace terrace::liballoc
