#include "liballoc/lifetimes/learned_uses.h"

#include <algorithm>

namespace terrace::liballoc {
namespace {

// Intervals from the object's birth on.
std::uint32_t since_birth(const LearnedUses::Frame& frame, std::uint32_t interval) {
  return (interval + frame.length - frame.born) % frame.length;
}

}  // namespace

void LearnedUses::judge(LearnedUse* use, std::uint32_t period, bool is_seen) {
  if (use->possible == most_periods) {
    use->seen /= 2;
    use->possible /= 2;
  }
  ++use->possible;
  if (is_seen) ++use->seen;
  use->period = static_cast<std::uint16_t>(period);
}

bool LearnedUses::note_touch(const Frame& frame, PeriodPosition at) {
  for (std::uint32_t i = 0; i < size_; ++i) {
    LearnedUse& use = uses_[i];
    if (use.interval != at.interval) continue;
    if (use.period == static_cast<std::uint16_t>(at.period)) return false;
    const bool counted = use.counts();
    judge(&use, at.period, true);
    return use.counts() != counted;
  }
  if (size_ == most) make_room(frame);
  insert(frame, {at.interval, static_cast<std::uint16_t>(at.period), 1, 1});
  return true;
}

bool LearnedUses::note_idle(const Frame& frame, PeriodPosition from, PeriodPosition to) {
  const std::uint64_t begin = from.number(frame.length) + 1, end = to.number(frame.length);
  bool has_changed = false;
  for (std::uint32_t i = size_; i-- > 0;) {
    LearnedUse& use = uses_[i];
    // The first time that this interval comes after `from`.
    const std::uint64_t first = from.number(frame.length) / frame.length * frame.length + use.interval;
    const std::uint64_t at = first >= begin ? first : first + frame.length;
    if (at >= end) continue;
    const auto period = static_cast<std::uint32_t>(at / frame.length);
    if (use.period == static_cast<std::uint16_t>(period)) continue;  // another run of it was touched then
    const bool counted = use.counts();
    judge(&use, period, false);
    has_changed |= use.counts() != counted;
    if (use.possible >= enough_periods && 4 * use.seen < use.possible) remove(i);
  }
  return has_changed;
}

std::uint32_t LearnedUses::counted() const {
  return static_cast<std::uint32_t>(
      std::count_if(uses_, uses_ + size_, [](const LearnedUse& use) { return use.counts(); }));
}

void LearnedUses::insert(const Frame& frame, const LearnedUse& use) {
  std::uint32_t i = size_++;
  for (; i > 0 && since_birth(frame, uses_[i - 1].interval) > since_birth(frame, use.interval); --i)
    uses_[i] = uses_[i - 1];
  uses_[i] = use;
}

void LearnedUses::remove(std::uint32_t i) {
  std::copy(uses_ + i + 1, uses_ + size_, uses_ + i);
  --size_;
}

// What does not count goes first.
void LearnedUses::make_room(const Frame& frame) {
  std::uint32_t victim = 1, least = UINT32_MAX;
  for (std::uint32_t i = 0; i < size_; ++i) {
    if (!uses_[i].counts()) return remove(i);
    if (i == 0 || i + 1 == size_) continue;
    const std::uint32_t gap =
        since_birth(frame, uses_[i + 1].interval) - since_birth(frame, uses_[i - 1].interval);
    if (gap < least) {
      least = gap;
      victim = i;
    }
  }
  remove(victim);
}

}  // namespace terrace::liballoc
