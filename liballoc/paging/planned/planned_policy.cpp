#include "liballoc/paging/planned/planned_policy.h"

#include <algorithm>

#include "liballoc/paging/transfers/transfers.h"

namespace terrace::liballoc {
namespace {

constexpr std::uint32_t most_staged = 2;    // beyond the writes in flight, as the reactive policy has it
constexpr std::uint32_t least_in_hand = 2;  // runs: a touch of new memory does not wait for a write
constexpr std::uint32_t most_waiting = 6;  // of those that wait for memory, so many are made room for at once

}  // namespace

int PlannedPolicy::initialise(std::uint32_t most_blocks) {
  const int error = reactive_.initialise();
  return error != 0 ? error : plan_.initialise(most_blocks);
}

void PlannedPolicy::on_step_event(const BlockEvent& event, std::uint32_t, const StepPlace& place) {
  plan_.on_event(event, place);
}

void PlannedPolicy::on_leave(std::uint32_t n) {
  reactive_.on_leave(n);
  if (n == planned_victim_) parts_.accounts.counts.planned_out_bytes += run_bytes;
  planned_victim_ = none;
}

void PlannedPolicy::on_fork() {
  reactive_.on_fork();
  plan_.on_fork();
  planned_victim_ = none;
}

// ---- memory -----------------------------------------------------------------------------------------------

// Runs that whoever needs memory can have at once. What a planned read has brought is not among them.
std::uint32_t PlannedPolicy::in_hand() const {
  const RunLists& lists = parts_.runs.lists();
  const std::uint32_t loaded = lists.loaded.size();
  const std::uint32_t stale = loaded - std::min(loaded, Transfers::reads_in_flight);
  const auto cached = static_cast<std::uint32_t>(parts_.runs.cached_pages() / pages_per_run);
  const std::uint32_t have =
      parts_.staging.free_frames() + lists.recycled.size() + cached + stale + parts_.budget.allowed_runs();
  return have - std::min(have, parts_.budget.excess_runs());
}

// Less than is needed now, with what is on its way out.
bool PlannedPolicy::is_short() const {
  const std::uint32_t leaving = parts_.runs.lists().staged.size() + parts_.operations.writes();
  return in_hand() + leaving < least_in_hand + std::min(parts_.line.size(), most_waiting);
}

// ---- what leaves ------------------------------------------------------------------------------------------

bool PlannedPolicy::may_evict() const {
  if (parts_.standing.mode != PagerMode::paging || !parts_.standing.evicts()) return false;
  const std::uint32_t leaving = parts_.runs.lists().staged.size() + parts_.operations.writes();
  return leaving < Transfers::writes_in_flight + most_staged;
}

bool PlannedPolicy::wants_eviction() const {
  if (!plan_.is_following() || !parts_.extents.may_be_asked()) return reactive_.wants_eviction();
  if (!may_evict()) return false;
  if (plan_.leaves().are_due()) return true;
  const RunLists& lists = parts_.runs.lists();
  const bool has_some =
      !lists.idle.is_empty() || !lists.streamed.is_empty() || !lists.hot.is_empty() || !lists.held.is_empty();
  return has_some && is_short();
}

Policy::Victim PlannedPolicy::next_victim() {
  planned_victim_ = none;
  if (!plan_.is_following() || !parts_.extents.may_be_asked()) return reactive_.next_victim();
  planned_victim_ = plan_.leaves().next();
  if (planned_victim_ != none) return {.run = planned_victim_};
  return is_short() ? least_needed() : Victim{};
}

// Of those that came longest ago the one that is touched last, as far as that is known; else the one that the
// reactive policy would take. What ends before it is touched goes last: its way out would be for nothing.
Policy::Victim PlannedPolicy::least_needed() {
  plan_.returns().note_shortage();
  const RunLists& lists = parts_.runs.lists();
  LeastNeeded best;
  for (const RunList* const list : {&lists.streamed, &lists.idle, &lists.hot})
    look_for_least_needed(*list, &best);
  if (best.run != none) return {.run = best.run};
  return reactive_.next_victim();
}

void PlannedPolicy::look_for_least_needed(const RunList& list, LeastNeeded* best) {
  constexpr unsigned most_looked_at = 256;
  std::uint32_t block = 0, events = NextUses::unknown, n = list.front();
  for (unsigned i = 0; i < most_looked_at && n != none; n = parts_.runs[n].next, ++i) {
    if (parts_.runs[n].block != block) {
      block = parts_.runs[n].block;
      events = block == 0 || next_uses_ == nullptr ? NextUses::unknown : next_uses_->events_to_use(block);
    }
    const bool is_known = events != NextUses::unknown && events != NextUses::ends_before;
    if (is_known && (best->run == none || events > best->events)) *best = {n, events};
  }
}

std::uint32_t PlannedPolicy::next_release(bool at_once) {
  if (!plan_.is_following()) return reactive_.next_release(at_once);
  return is_short() ? reactive_.next_release(at_once) : none;
}

// ---- what comes back --------------------------------------------------------------------------------------

// What is needed now may take the last memory in hand; what is not leaves that for touches.
bool PlannedPolicy::wants_read_ahead() const {
  if (!plan_.is_following()) return reactive_.wants_read_ahead();
  if (parts_.standing.mode != PagerMode::paging || !plan_.returns().are_due()) return false;
  const OperationTable& operations = parts_.operations;
  const std::uint32_t most = operations.read_depth();
  if (operations.reads_in_device() >= most || operations.reads() >= 2 * most) return false;
  return in_hand() > (plan_.returns().is_urgent() ? 0 : least_in_hand);
}

std::uint32_t PlannedPolicy::next_read() {
  return plan_.is_following() ? plan_.returns().next_read() : reactive_.next_read();
}

// What has left makes room for what is to return.
bool PlannedPolicy::reads_over_cached() const {
  return plan_.is_following() || reactive_.reads_over_cached();
}

bool PlannedPolicy::wants_agent() const {
  if (!plan_.is_following()) return reactive_.wants_agent();
  return wants_eviction() || wants_read_ahead();
}

}  // namespace terrace::liballoc
