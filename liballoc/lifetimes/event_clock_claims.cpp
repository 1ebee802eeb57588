// How the event clock comes to claim a phase: one it knows, or one that it learns.
#include <algorithm>

#include "liballoc/lifetimes/assembly.h"
#include "liballoc/lifetimes/event_clock.h"
#include "liballoc/lifetimes/repeats/evidence.h"

namespace terrace::liballoc {

// ---- claims ---------------------------------------------------------------------------------------------

void EventClock::begin_claim(std::uint32_t slot, std::uint32_t start, StepPlace* out) {
  claimed_ = slot;
  ++claim_;
  ++counts_.claims;
  periods_seen_ = 0;
  period_start_ = start;
  period_begins_ = followers_[0].expected() == book_[slot].lead().first;
  book_[slot].last_seen = counts_.events;
  book_.end_trials();
  out->claim_began = true;
  out->period_began = false;
}

// After the event by which the program is back in a known phase, perhaps while another one still waits for
// it.
void EventClock::come_back(std::uint32_t place, StepPlace* out) {
  const std::uint32_t slot = book_.returned(threads_[place].thread, claimed_);
  if (slot == PhaseBook::none) return;
  const bool is_other_thread = is_claimed() && place != lead_place_;
  if (is_other_thread && book_[slot].allocated_kib <= book_[claimed_].allocated_kib) return;
  if (is_claimed() && !is_other_thread) depart(out);  // else it is replaced, not left
  book_.note_entry(slot, threads_[place].history);
  const PhaseBook::Trial trial = book_.trial(slot);
  claim_known(slot, place, trial.expected, trial.run, out);
}

void EventClock::claim_known(std::uint32_t slot, std::uint32_t place, std::uint32_t expected,
                             std::uint32_t run, StepPlace* out) {
  KnownPhase& phase = book_[slot];
  History& h = threads_[place].history;
  h.set_cover(h.count() - std::min(run, h.held()), h.count(), slot + 1);
  std::fill_n(member_of_, FollowedThreads::most, no_member);
  for (std::uint32_t m = 0; m < phase.members; ++m) {
    followers_[m].begin(phase, m, m == 0 ? expected : phase.first_from(expected, m), m == 0);
    for (std::uint32_t i = 0; i < FollowedThreads::most; ++i) {
      if (threads_[i].last_event != 0 && threads_[i].thread == phase.member_list[m].thread)
        member_of_[i] = static_cast<std::uint8_t>(m);
    }
  }
  lead_place_ = place;
  begin_claim(slot, h.position(h.count() - std::min(run, h.held())), out);
  std::uint32_t own = expected;
  while (phase.next(own) != expected) own = phase.next(own);
  describe(own, out);
}

// ---- learning -------------------------------------------------------------------------------------------

void EventClock::learn(std::uint32_t place, StepPlace* out) {
  FollowedThread& t = threads_[place];
  for (std::uint32_t i = 0; i < RepeatFinder::candidates; ++i) {
    Repeat& r = t.repeats[i];
    if (r.lag == 0 || r.run < r.lag || r.run < r.retry) continue;
    if (!is_period(place, &r)) continue;
    const Repeat repeat = r;
    if (is_part_of_known(place, repeat.lag)) continue;
    if (!claim_same(place, repeat, out)) claim_new(place, repeat, out);
    return;
  }
}

// If not, says when to look again.
bool EventClock::is_period(std::uint32_t place, Repeat* r) const {
  const History& h = threads_[place].history;
  const bool is_followed = is_claimed() && member_of_[place] == 0 && followers_[0].is_well();
  const std::uint32_t turn_later = r->run + std::max(r->lag, 64U);
  if (is_followed && r->lag % book_[claimed_].lead().events == 0 && followers_[0].events() >= r->lag) {
    r->retry = turn_later;
    return false;
  }
  if (r->run < 2 * GramHash::tokens && h.token(h.count() - 1) != mark_token) return false;
  const LoopTurn turn = turn_of(h, r->lag);
  const std::uint32_t needed = run_needed(h, *r, turn.has_mark);
  constexpr std::uint32_t turns_of_what_grows = 128;
  if (r->run < needed) {
    r->retry = needed;
    return false;
  }
  const bool gives_back = turn.is_balanced || turn.has_mark || r->run / turns_of_what_grows >= r->lag;
  r->retry = turn_later;
  return gives_back && is_worth_more(place, *r) && least_period(h, r->lag) == r->lag;
}

// Than what is claimed now, or was claimed in the last turn. An outer loop is worth more than the inner one
// that was found first, if the inner does not explain all of it; the turns of training and evaluation within
// an epoch are worth more by themselves than the epoch.
bool EventClock::is_worth_more(std::uint32_t place, const Repeat& r) const {
  const FollowedThread& t = threads_[place];
  const bool is_other_thread = is_claimed() && member_of_[place] == no_member;
  if (is_other_thread) return turn_of(t.history, r.lag).allocated_kib > book_[claimed_].allocated_kib;
  if (is_claimed() && member_of_[place] != 0 && followers_[member_of_[place]].is_followed()) return false;
  std::uint32_t covered[PhaseBook::most + 1] = {};
  for (std::uint32_t i = t.history.count() - r.lag; i != t.history.count(); ++i)
    ++covered[t.history.cover(i)];
  const std::uint32_t open = covered[0];
  if (open >= (r.lag + 3) / 4) return true;
  std::uint32_t phases = 0, longest = 0;
  for (std::uint32_t slot = 0; slot < PhaseBook::most; ++slot) {
    if (covered[slot + 1] < r.lag / 8) continue;
    ++phases;
    longest = std::max(longest, book_[slot].id != 0 ? book_[slot].lead().events : 0);
  }
  constexpr std::uint32_t most_inner_turns = 16;
  return phases == 1 && open >= 4 + r.lag / 1024 && r.lag / most_inner_turns <= longest;
}

// An inner loop of a known phase that the program is in again is none of its own.
bool EventClock::is_part_of_known(std::uint32_t place, std::uint32_t lag) const {
  const FollowedThread& t = threads_[place];
  for (std::uint32_t i = 0; i < PhaseBook::most; ++i) {
    const KnownPhase& phase = book_[i];
    if (phase.id == 0 || phase.lead().thread != t.thread || phase.lead().events <= lag) continue;
    if (book_.find_in(i, t.history, t.history.count() - lag, lag) != no_ordinal) return true;
  }
  return false;
}

bool EventClock::claim_same(std::uint32_t place, const Repeat& r, StepPlace* out) {
  const FollowedThread& t = threads_[place];
  for (std::uint32_t i = 0; i < PhaseBook::most; ++i) {
    const KnownPhase& phase = book_[i];
    if (phase.id == 0 || phase.lead().thread != t.thread || phase.lead().events != r.lag) continue;
    const std::uint32_t next = book_.find_in(i, t.history, t.history.count() - r.lag, r.lag);
    if (next == no_ordinal) continue;
    claim_known(i, place, next, r.lag, out);
    return true;
  }
  return false;
}

void EventClock::claim_new(std::uint32_t place, const Repeat& r, StepPlace* out) {
  const std::uint32_t slot = book_.take(claimed_, ++last_id_);
  KnownPhase& phase = book_[slot];
  Assembled made;
  if (!assemble(threads_, place, r, static_cast<std::uint32_t>(counts_.events), &phase, &made)) {
    book_.forget(slot);
    return;
  }
  book_.learned(slot);
  ++counts_.phases_learned;
  std::fill_n(member_of_, FollowedThreads::most, no_member);
  for (std::uint32_t m = 0; m < phase.members; ++m) {
    member_of_[made.places[m]] = static_cast<std::uint8_t>(m);
    followers_[m].begin(phase, m, made.expected[m], true);
  }
  lead_place_ = place;
  History& h = threads_[place].history;
  retire_parts(slot, place, r.lag);
  const std::uint32_t seen = std::min({r.run + r.lag, 4 * r.lag, h.held()});
  h.set_cover(h.count() - seen, h.count(), slot + 1);
  begin_claim(slot, made.start, out);
  std::uint32_t own = made.expected[0];
  while (phase.next(own) != made.expected[0]) own = phase.next(own);
  describe(own, out);
}

// Inner loops that the new phase contains.
void EventClock::retire_parts(std::uint32_t slot, std::uint32_t place, std::uint32_t lag) {
  const FollowedThread& t = threads_[place];
  for (std::uint32_t i = 0; i < PhaseBook::most; ++i) {
    const KnownPhase& phase = book_[i];
    if (i == slot || phase.id == 0 || phase.lead().thread != t.thread || phase.lead().events >= lag) continue;
    if (book_.occurs_in(i, t.history, t.history.count() - lag, lag)) book_.forget(i);
  }
}

}  // namespace terrace::liballoc
