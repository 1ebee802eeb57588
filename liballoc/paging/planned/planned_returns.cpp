#include "liballoc/paging/planned/planned_returns.h"

#include <algorithm>

namespace terrace::liballoc {
namespace {

constexpr std::uint32_t early_part = 8;  // of a period: what came so long before its deadline came early

}  // namespace

bool PlannedReturns::are_due() const {
  return course_.is_followed && (count_ > 0 || course_.executor().next(lane) != none);
}

// ---- runs -------------------------------------------------------------------------------------------------

// A run that cannot come as a whole, or is another block's now, counts as arrived: it is a touch's to bring.
PlannedReturns::Place PlannedReturns::place_of(std::uint32_t n, const UnderWay& u) const {
  const Run& r = parts_.runs[n];
  if (r.block != u.block) return Place::arrived;
  switch (r.state) {
    case RunState::cached:
      return Place::in_frame;
    case RunState::staged:
      return r.stuck ? Place::arrived : Place::in_frame;
    case RunState::writing:
    case RunState::reading:
      return Place::on_its_way;
    case RunState::stored:
    case RunState::resident:
      return parts_.runs.pages(n).away().is_empty() ? Place::arrived : Place::away;
    case RunState::empty:
    case RunState::lost:
      break;
  }
  return Place::arrived;
}

// Of use as a whole, and of which nothing is under way.
bool PlannedReturns::can_read(std::uint32_t n, const UnderWay& u) const {
  const Run& r = parts_.runs[n];
  return place_of(n, u) == Place::away && (!r.scattered || r.dense) && !r.queued && r.pieces == 0 &&
         !r.in_flight && !parts_.blocks.is_sparse(r.block);
}

// ---- entries ----------------------------------------------------------------------------------------------

// False: all its runs are being read or need not be.
bool PlannedReturns::skip_to_read(UnderWay& u) {
  while (u.to_read < u.end && !can_read(u.to_read, u)) {
    if (u.to_read == offered_ && place_of(offered_, u) != Place::away)
      parts_.accounts.counts.planned_in_bytes += run_bytes;
    ++u.to_read;
  }
  return u.to_read < u.end;
}

void PlannedReturns::begin_more() {
  wire::Executor& executor = course_.executor();
  while (count_ < most_under_way && (count_ == 0 || !skip_to_read(under_way_[count_ - 1]))) {
    const std::uint32_t entry = executor.next(lane);
    if (entry == none) return;
    executor.start(entry);
    const std::uint32_t block = course_.block_of(course_.schedule->entry(entry).object);
    if (block == 0) {
      executor.abort(entry);
      continue;
    }
    const RunSpan runs = course_.runs_of(entry, parts_.blocks[block]);
    under_way_[count_++] = {entry, block, runs.first, runs.first, runs.end, shortages_};
  }
}

std::uint32_t PlannedReturns::next_read() {
  if (!course_.is_followed) return none;
  begin_more();
  if (count_ == 0 || !skip_to_read(under_way_[count_ - 1])) return none;
  return offered_ = under_way_[count_ - 1].to_read;
}

bool PlannedReturns::is_urgent() const {
  if (!course_.is_followed) return false;
  const UnderWay* const last = count_ > 0 ? &under_way_[count_ - 1] : nullptr;
  if (last != nullptr && last->to_read < last->end) return course_.is_overdue(last->entry);
  const std::uint32_t first = course_.executor().next(lane);
  return first != none && course_.executor().is_urgent(first);
}

// What is away and was not asked for yet is still to be read.
bool PlannedReturns::is_over(UnderWay& u) {
  for (; u.next < u.end; ++u.next) {
    const Place place = place_of(u.next, u);
    const bool is_settled = place == Place::arrived || (place == Place::away && u.next < u.to_read);
    if (!is_settled) return false;
  }
  return true;
}

std::uint32_t PlannedReturns::next_return() {
  if (!course_.is_followed) return none;
  begin_more();
  for (std::size_t i = 0; i < count_;) {
    UnderWay& u = under_way_[i];
    if (is_over(u)) {
      end(i);
      continue;
    }
    if (place_of(u.next, u) == Place::in_frame) {
      const bool was_read = parts_.runs[u.next].from_read;
      u.to_read = std::max(u.to_read, u.next + 1);
      if (!was_read) parts_.accounts.counts.planned_in_bytes += run_bytes;
      return u.next++;
    }
    ++i;
  }
  return none;
}

// Of this period, and in time by far: what others lacked was taken for it.
void PlannedReturns::end(std::size_t at) {
  const UnderWay& u = under_way_[at];
  wire::Executor& executor = course_.executor();
  executor.done(u.entry);
  const std::uint32_t now = executor.ordinal();
  const std::uint64_t by = course_.schedule->entry(u.entry).by;
  const bool is_of_this_period = executor.trigger(u.entry) <= now;
  if (is_of_this_period && by > now + course_.schedule->period() / early_part && u.shortages != shortages_)
    executor.early(u.entry);
  remove(at);
}

void PlannedReturns::remove(std::size_t at) {
  std::copy(under_way_.begin() + static_cast<std::ptrdiff_t>(at) + 1,
            under_way_.begin() + static_cast<std::ptrdiff_t>(count_),
            under_way_.begin() + static_cast<std::ptrdiff_t>(at));
  --count_;
}

std::uint32_t PlannedReturns::awaited(std::uint32_t object, std::uint32_t n) const {
  if (!course_.is_followed) return none;
  for (std::size_t i = 0; i < count_; ++i) {
    const UnderWay& u = under_way_[i];
    if (course_.schedule->entry(u.entry).object == object && n >= u.next && n < u.end) return u.entry;
  }
  const std::uint32_t entry = course_.executor().waiting_of(object);
  const bool is_return = entry != none && course_.schedule->entry(entry).action == wire::Action::in;
  return is_return ? entry : none;
}

// Looks at some only: the others are looked at when these have gone.
void PlannedReturns::hurry_overdue() {
  constexpr std::size_t most_looked_at = 32;
  wire::Executor& executor = course_.executor();
  std::array<std::uint32_t, most_looked_at> overdue;
  std::size_t count = 0;
  for (const std::uint32_t entry :
       executor.waiting(lane).first(std::min<std::size_t>(most_looked_at, executor.waiting(lane).size())))
    if (!executor.is_urgent(entry) && course_.is_overdue(entry)) overdue[count++] = entry;
  for (std::size_t i = 0; i < count; ++i) executor.hurry(overdue[i]);
}

void PlannedReturns::forget(std::uint32_t object) {
  for (std::size_t i = 0; i < count_;) {
    if (course_.schedule->entry(under_way_[i].entry).object != object) {
      ++i;
      continue;
    }
    course_.executor().abort(under_way_[i].entry);
    remove(i);
  }
}

void PlannedReturns::stop() {
  for (std::size_t i = 0; i < count_; ++i) course_.executor().abort(under_way_[i].entry);
  count_ = 0;
  offered_ = none;
}

}  // namespace terrace::liballoc
