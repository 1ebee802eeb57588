#include "liballoc/lifetimes/assembly.h"

#include <algorithm>

#include "liballoc/lifetimes/repeats/evidence.h"

namespace terrace::liballoc {
namespace {

constexpr std::uint32_t shortest_loop = 8;  // events: less, repeated within a turn, says nothing
constexpr std::uint32_t least_events = 16;  // that must have come again: noise repeats a few by accident

struct Part {
  const FollowedThread* thread = nullptr;
  std::uint32_t next = 0;  // index into its history
  std::uint32_t end = 0;
  std::uint32_t age(std::uint32_t now) const { return now - thread->history.position(next); }
};

// Events of the thread with an age in (least, most].
std::uint32_t count_between(const History& h, std::uint32_t now, std::uint32_t least, std::uint32_t most) {
  // Ages fall with the index: the first index whose age is at most `limit`.
  const auto first_within = [&](std::uint32_t limit) {
    std::uint32_t low = h.count() - h.held(), high = h.count();
    while (low != high) {
      const std::uint32_t middle = low + (high - low) / 2;
      if (now - h.position(middle) > limit)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  };
  return first_within(least) - first_within(most);
}

bool is_a_turn(const History& h, std::uint32_t length, bool is_exact) {
  const std::uint32_t again = std::max(length, least_events);
  if (length == 0 || length + again >= h.held() || !repeats(h, h.count(), again, length)) return false;
  const std::uint32_t period = least_period(h, length);
  return period == length || (is_exact && period >= shortest_loop);
}

// How many of its last events are the thread's part of the lead's last turn; 0: it has none.
std::uint32_t events_of_turn(const History& h, const History& lead, std::uint32_t lag, std::uint32_t now) {
  const std::uint32_t turn = now - lead.position(lead.count() - lag);
  const std::uint32_t two = 2 * lag < lead.held() ? now - lead.position(lead.count() - 2 * lag) : 2 * turn;
  const std::uint32_t count = count_between(h, now, 0, turn) + (h.position(h.count() - 1) == now ? 1 : 0);
  const std::uint32_t before = count_between(h, now, turn, two);
  const std::uint32_t usual = (count + before) / 2;
  const std::uint32_t slack = std::max(8U, usual / 2);
  if (count > before + slack || before > count + slack) return 0;
  if (is_a_turn(h, usual, count == before)) return usual;
  for (std::uint32_t off = 1; off <= slack; ++off) {
    if (is_a_turn(h, usual + off, false)) return usual + off;
    if (off < usual && is_a_turn(h, usual - off, false)) return usual - off;
  }
  return 0;
}

// The lead's event that gets ordinal 0.
std::uint32_t first_of(const History& h, const Repeat& r) {
  for (std::uint32_t i = h.count() - r.lag; i != h.count(); ++i) {
    if (h.token(i) == mark_token) return i;
  }
  return h.count() - r.lag + (r.lag - r.run % r.lag) % r.lag;
}

// The members' parts, merged by the order in which their events came.
class Merge {
 public:
  Merge(const FollowedThreads& threads, std::uint32_t position, KnownPhase* phase, Assembled* out)
      : threads_(threads), position_(position), phase_(phase), out_(out) {}

  void add(std::uint32_t place, std::uint32_t events) {
    const History& h = threads_[place].history;
    parts_[members_] = {&threads_[place], h.count() - events, h.count()};
    phase_->allocated_kib += turn_of(h, events).allocated_kib;
    out_->places[members_++] = place;
    total_ += events;
  }
  bool has_room(std::uint32_t events) const {
    return members_ < most_members && total_ + events <= KnownPhase::most_events;
  }

  // `first`: of the lead's history, the event that gets ordinal 0.
  void finish(std::uint32_t first) {
    std::uint32_t rotation = 0;
    std::uint32_t begin[most_members];
    std::fill_n(begin, most_members, no_ordinal);
    for (std::uint32_t n = 0; n < total_; ++n) {
      const std::uint32_t m = oldest();
      begin[m] = std::min(begin[m], n);
      if (m == 0 && parts_[m].next == first) rotation = n;
      phase_->add(parts_[m].thread->history.token(parts_[m].next++), m);
    }
    phase_->finish(rotation);
    for (std::uint32_t m = 0; m < members_; ++m) {
      phase_->member_list[m].thread = parts_[m].thread->thread;
      out_->expected[m] = begin[m] >= rotation ? begin[m] - rotation : begin[m] + total_ - rotation;
    }
  }

 private:
  // The member whose next event came first.
  std::uint32_t oldest() const {
    std::uint32_t found = no_ordinal;
    for (std::uint32_t m = 0; m < members_; ++m) {
      if (parts_[m].next == parts_[m].end) continue;
      if (found == no_ordinal || parts_[m].age(position_) > parts_[found].age(position_)) found = m;
    }
    return found;
  }

  const FollowedThreads& threads_;
  std::uint32_t position_;
  KnownPhase* phase_;
  Assembled* out_;
  Part parts_[most_members];
  std::uint32_t members_ = 0;
  std::uint32_t total_ = 0;
};

}  // namespace

bool assemble(const FollowedThreads& threads, std::uint32_t lead, const Repeat& repeat,
              std::uint32_t position, KnownPhase* phase, Assembled* out) {
  const History& own = threads[lead].history;
  Merge merge(threads, position, phase, out);
  if (!merge.has_room(repeat.lag)) return false;
  merge.add(lead, repeat.lag);
  for (std::uint32_t i = 0; i < FollowedThreads::most; ++i) {
    const History& h = threads[i].history;
    if (i == lead || threads[i].last_event == 0 || h.held() == 0) continue;
    const std::uint32_t events = events_of_turn(h, own, repeat.lag, position);
    if (events > 0 && merge.has_room(events)) merge.add(i, events);
  }
  const std::uint32_t first = first_of(own, repeat);
  out->start = own.position(first);
  merge.finish(first);
  return true;
}

}  // namespace terrace::liballoc
