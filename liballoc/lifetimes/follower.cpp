#include "liballoc/lifetimes/follower.h"

#include <algorithm>

namespace terrace::liballoc {

void Follower::begin(const KnownPhase& phase, std::uint32_t member, std::uint32_t expected, bool is_in_step) {
  *this = Follower{};
  const std::uint32_t events = phase.member_list[member].events;
  expected_ = expected;
  reach_ = std::clamp(events / 8, 1U, most_passed);
  most_misses_ = std::clamp(events / 8, 3U, 6U);
  is_in_step_ = is_in_step;
  is_followed_ = true;
  last_ = phase.member_list[member].first;
  while (phase.next(last_) > last_) last_ = phase.next(last_);
}

std::uint32_t Follower::match(KnownPhase& phase, std::uint32_t token) {
  ++events_;
  while (passed_count_ > 0 && events_ - passed_[0].at > window) drop_oldest(phase);
  if (phase.token(expected_) == token) return take(phase, expected_);
  std::uint32_t found = take_passed(phase, token);
  if (found != no_ordinal) return found;
  found = is_in_step_ ? look_ahead(phase, token) : look_everywhere(phase, token);
  if (found != no_ordinal) return take(phase, found);
  miss();
  return no_ordinal;
}

std::uint32_t Follower::take(KnownPhase& phase, std::uint32_t ordinal) {
  recent_ <<= 1U;
  is_in_step_ = true;
  last_period_ = periods_;
  phase.meet(ordinal);
  advance(phase);
  return ordinal;
}

void Follower::advance(const KnownPhase& phase) {
  if (expected_ == last_) ++periods_;
  expected_ = phase.next(expected_);
}

std::uint32_t Follower::take_passed(KnownPhase& phase, std::uint32_t token) {
  for (std::uint32_t i = 0; i < passed_count_; ++i) {
    const std::uint32_t ordinal = passed_[i].ordinal;
    if (phase.token(ordinal) != token) continue;
    std::copy(passed_ + i + 1, passed_ + passed_count_, passed_ + i);
    --passed_count_;
    phase.meet(ordinal);
    last_period_ = ordinal > expected_ && periods_ > 0 ? periods_ - 1 : periods_;
    recent_ <<= 1U;
    return ordinal;
  }
  return no_ordinal;
}

// Leaves the event expected.
std::uint32_t Follower::look_ahead(KnownPhase& phase, std::uint32_t token) {
  std::uint32_t far = expected_;
  for (std::uint32_t i = 0; i < reach_; ++i) {
    far = phase.next(far);
    if (phase.token(far) != token) continue;
    while (expected_ != far) pass_over(phase, expected_);
    return far;
  }
  return no_ordinal;
}

// Where the thread is in its part is not known: its first event that occurs in it says so.
std::uint32_t Follower::look_everywhere(const KnownPhase& phase, std::uint32_t token) {
  for (std::uint32_t far = phase.next(expected_); far != expected_; far = phase.next(far)) {
    if (phase.token(far) != token) continue;
    expected_ = far;
    return far;
  }
  return no_ordinal;
}

void Follower::pass_over(KnownPhase& phase, std::uint32_t ordinal) {
  if (passed_count_ == most_passed) drop_oldest(phase);
  passed_[passed_count_++] = {ordinal, events_};
  advance(phase);
}

void Follower::drop_oldest(KnownPhase& phase) {
  const std::uint32_t ordinal = passed_[0].ordinal;
  std::copy(passed_ + 1, passed_ + passed_count_, passed_);
  --passed_count_;
  if (!phase.is_optional(ordinal)) miss();
  phase.miss(ordinal);
}

}  // namespace terrace::liballoc
