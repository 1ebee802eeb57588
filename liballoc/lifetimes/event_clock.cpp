#include "liballoc/lifetimes/event_clock.h"

#include <algorithm>
#include <cerrno>

#include "liballoc/base/os.h"

namespace terrace::liballoc {
namespace {

constexpr std::size_t clock_bytes = FollowedThreads::bytes + RecentGrams::bytes + PhaseBook::bytes;
constexpr int advice_no_huge_page = 15;

}  // namespace

int EventClock::initialise(std::uint32_t most_blocks) {
  memory_ = static_cast<std::byte*>(os::map_anonymous(clock_bytes, PROT_READ | PROT_WRITE));
  if (memory_ == nullptr) return ENOMEM;
  if (births_.initialise(most_blocks) != 0) {
    finish();
    return ENOMEM;
  }
  os::advise(memory_, clock_bytes, advice_no_huge_page);  // each part is used from its beginning on
  threads_.use(memory_);
  recent_.use(memory_ + FollowedThreads::bytes);
  book_.use(memory_ + FollowedThreads::bytes + RecentGrams::bytes);
  std::fill_n(member_of_, FollowedThreads::most, no_member);
  return 0;
}

void EventClock::finish() {
  if (memory_ != nullptr) os::unmap(memory_, clock_bytes);
  memory_ = nullptr;
  births_.finish();
  threads_ = FollowedThreads{};
  recent_ = RecentGrams{};
  book_ = PhaseBook{};
  counts_ = ClockCounts{};
  claimed_ = PhaseBook::none;
  claim_ = lead_place_ = periods_seen_ = period_start_ = last_id_ = 0;
  period_begins_ = false;
}

ClockCounts EventClock::counts() const {
  ClockCounts counts = counts_;
  counts.phases_known = book_.known();
  return counts;
}

// ---- one event ------------------------------------------------------------------------------------------

StepPlace EventClock::on_event(const ClockEvent& event) {
  ++counts_.events;
  const bool is_free = event.kind == ClockEvent::Kind::freed;
  const BornBlock old = is_free ? births_.take(event.block) : BornBlock{};
  const std::uint32_t token = is_free ? token_of(2, old.token) : token_of(event);
  StepPlace out;
  const std::uint32_t place = enter(event.thread, &out);
  if (is_free && old.token != 0) {
    for (std::uint32_t i = 0; i < FollowedThreads::most; ++i) {
      if (threads_[i].thread == old.thread && threads_[i].last_event != 0) threads_[i].live_kib -= old.kib;
    }
  }
  if (place == FollowedThreads::none) {
    describe(no_ordinal, &out);
    if (is_claimed()) ++counts_.noise_events;
  } else {
    if (event.kind == ClockEvent::Kind::allocated)
      threads_[place].live_kib += static_cast<std::uint32_t>((event.bytes + 1023) / 1024);
    step(place, token, &out);
  }
  if (is_free)
    freed(old, place, &out);
  else
    born(event, place, token, out);
  return out;
}

StepPlace EventClock::mark(std::uint32_t thread, std::uint64_t name) {
  return note(thread, name == 0 ? mark_token : token_of_mark(name));
}

// An event that is of no block's life.
StepPlace EventClock::note(std::uint32_t thread, std::uint32_t token) {
  ++counts_.events;
  StepPlace out;
  const std::uint32_t place = enter(thread, &out);
  if (place != FollowedThreads::none) {
    step(place, token, &out);
    return out;
  }
  describe(no_ordinal, &out);
  if (is_claimed()) ++counts_.noise_events;
  return out;
}

std::uint32_t EventClock::enter(std::uint32_t thread, StepPlace* out) {
  bool is_new = false;
  const std::uint32_t place = threads_.find(thread, counts_.events, &is_new);
  if (place == FollowedThreads::none) return place;
  threads_[place].last_event = counts_.events;
  if (!is_new) return place;
  // Another thread was there, and has long been idle.
  const std::uint8_t member = member_of_[place];
  member_of_[place] = no_member;
  if (is_claimed() && member == 0) depart(out);
  if (member != no_member) followers_[member].leave();
  return place;
}

void EventClock::step(std::uint32_t place, std::uint32_t token, StepPlace* out) {
  FollowedThread& t = threads_[place];
  follow(place, token, out);
  threads_.make_room(place, counts_.events);
  t.history.push(token, static_cast<std::uint32_t>(counts_.events), t.live_kib,
                 out->claimed ? claimed_ + 1 : 0);
  t.repeats.on_event(t.history, recent_, place + 1);
  const bool is_lead_well = is_claimed() && place == lead_place_ && followers_[0].is_well();
  book_.try_all(t.thread, token, is_lead_well ? 0 : t.repeats.last_gram(), claimed_);
  if (!out->claimed) come_back(place, out);
  if (!out->claim_began) learn(place, out);
  if (out->claimed)
    ++counts_.claimed_events;
  else if (is_claimed())
    ++counts_.noise_events;
}

void EventClock::describe(std::uint32_t ordinal, StepPlace* out) const {
  out->phase = out->length = out->ordinal = 0;
  out->claimed = false;
  if (!is_claimed()) return;
  out->phase = book_[claimed_].id;
  out->length = book_[claimed_].length;
  out->claimed = ordinal != no_ordinal;
  out->ordinal = out->claimed ? ordinal : 0;
}

// ---- following the claimed phase ------------------------------------------------------------------------

void EventClock::follow(std::uint32_t place, std::uint32_t token, StepPlace* out) {
  const std::uint8_t member = member_of_[place];
  if (!is_claimed() || member == no_member || !followers_[member].is_followed()) {
    describe(no_ordinal, out);
    return;
  }
  KnownPhase& phase = book_[claimed_];
  Follower& follower = followers_[member];
  const std::uint32_t ordinal = follower.match(phase, token);
  phase.last_seen = counts_.events;
  describe(ordinal, out);
  const bool is_out_of_place = token == mark_token && phase.has_marks && ordinal == no_ordinal;
  if (member == 0) follow_lead(out);
  if (!follower.has_departed() && !is_out_of_place) return;
  if (member == 0)
    depart(out);
  else
    follower.leave();
}

void EventClock::follow_lead(StepPlace* out) {
  if (period_begins_ && out->claimed) {
    out->period_began = true;
    period_start_ = static_cast<std::uint32_t>(counts_.events);
    period_begins_ = false;
  }
  if (followers_[0].periods() == periods_seen_) return;
  periods_seen_ = followers_[0].periods();
  period_begins_ = true;
  ++counts_.periods;
  check_members();
}

// A thread that is ahead of the lead or behind it by a whole period does not belong to its step.
void EventClock::check_members() {
  for (std::uint32_t m = 1; m < book_[claimed_].members; ++m) {
    Follower& f = followers_[m];
    if (f.periods() + 1 < periods_seen_ || f.periods() > periods_seen_ + 1) f.leave();
  }
}

void EventClock::depart(StepPlace* out) {
  claimed_ = PhaseBook::none;
  describe(no_ordinal, out);
  out->period_began = false;
  out->departed = true;
  ++counts_.departures;
  period_begins_ = false;
  std::fill_n(member_of_, FollowedThreads::most, no_member);
}

// ---- births ---------------------------------------------------------------------------------------------

std::uint32_t EventClock::period_of(std::uint32_t place) const {
  const bool is_member = place != FollowedThreads::none && member_of_[place] != no_member;
  return followers_[is_member ? member_of_[place] : 0].last_period();
}

void EventClock::born(const ClockEvent& event, std::uint32_t place, std::uint32_t token,
                      const StepPlace& out) {
  if (event.kind == ClockEvent::Kind::grown) return;
  BornBlock block{token, event.thread, static_cast<std::uint32_t>((event.bytes + 1023) / 1024),
                  static_cast<std::uint32_t>(counts_.events)};
  if (out.claimed) {
    block.claim = claim_;
    block.ordinal = out.ordinal;
    block.period = period_of(place);
  }
  births_.put(event.block, block);
}

void EventClock::freed(const BornBlock& block, std::uint32_t place, StepPlace* out) const {
  if (block.token == 0 || !is_claimed()) return;
  if (block.claim != claim_) {
    // Wrong only if 2^31 events lie between.
    const bool is_older = static_cast<std::int32_t>(block.position - period_start_) < 0;
    out->birth = is_older ? Birth::before : Birth::unknown;
    return;
  }
  out->born_at = block.ordinal;
  out->birth = block.period >= period_of(place) ? Birth::here : Birth::before;
}

}  // namespace terrace::liballoc
