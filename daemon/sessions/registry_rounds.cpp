// See registry.h: what sessions report, taken in by turns.
#include <algorithm>

#include "daemon/sessions/registry.h"

namespace terrace::daemon {
namespace {

// Of one round's events of one process, the last that go to the journal.
constexpr std::size_t journal_share = 512;

}  // namespace

void Registry::take_counters(Session& session) {
  session.snapshot();
  // Back from an earlier daemon, a job brings its accounts into the new segment when it reads its welcome.
  // Until then that says nothing, which must not be taken for a job that holds nothing.
  if (session.reattached && session.counter(wire::Stat::heartbeat_ns) == 0) return;
  const Demand demand{session.resident_bytes(), session.counter(wire::Stat::heap_live_bytes),
                      session.counter(wire::Stat::budget_bytes)};
  if (session.is_gpu_heap()) return shares_.gpu.observe(session.id(), demand);
  tallies_.observe(session.id(), session.counters());
  shares_.dram.observe(session.id(), demand);
  shares_.pools.observe(session.id(), session.counter(wire::Stat::pool_used_bytes));
  if (shares_.nvm) shares_.nvm->observe(session.id(), session.counter(wire::Stat::nvm_bytes));
  shares_.writes.observe(session.id(), session.counter(wire::Stat::written_bytes));
}

std::size_t Registry::take_events(Session& session, std::uint64_t now_ns) {
  const std::size_t count = session.read_events(scratch_.data(), now_ns);
  session.lifetimes().share_room(sessions_.size());
  for (std::size_t i = 0; i < count; ++i) {
    const wire::Event& event = scratch_[i];
    session.lifetimes().take(event);
    if (i + journal_share < count) continue;
    journal_.add({0,
                  event.time_ns,
                  session.id(),
                  session.peer().uid,
                  session.job_name(),
                  wire::name_of(event.kind),
                  {},
                  event});
  }
  return count;
}

// A thousand full rings would take a second: what is not read now is the first next time.
void Registry::take_events_of_all(std::uint64_t now_ns) {
  std::size_t read = 0;
  for (std::size_t i = 0; i < sessions_.size() && read < events_per_call; ++i)
    read += take_events(next_in_turn(sessions_, &last_read_), now_ns);
}

void Registry::take_in(std::uint64_t now_ns) {
  for (auto& [id, session] : sessions_) take_counters(*session);
  take_events_of_all(now_ns);
  ++revision_;
  end_round(now_ns);
}

void Registry::take_turn(std::uint64_t now_ns) {
  std::size_t read = 0;
  for (std::size_t i = 0; i < std::min(sessions_per_turn, sessions_.size()); ++i) {
    const SessionId before = last_counted_;
    Session& session = next_in_turn(sessions_, &last_counted_);
    if (session.id() <= before) ++revision_;  // all had their turn
    take_counters(session);
    if (read < events_per_call && session.has_events_due(now_ns)) read += take_events(session, now_ns);
  }
  for (const SessionId id : report_checks_.givers()) {
    if (Session* session = find(id)) take_counters(*session);
  }
  end_round(now_ns);
}

void Registry::end_round(std::uint64_t now_ns) {
  if (now_ns < next_round_ns_) return;
  next_round_ns_ = now_ns + round_ns;
  admissions_.look_at_clock(now_ns);
  if (sessions_.empty()) ++revision_;
  const bool had_givers = !report_checks_.givers().empty();
  if (report_checks_.find_givers()) ++revision_;
  report_checks_.check(now_ns);
  const bool has_givers = !report_checks_.givers().empty();
  if (had_givers || has_givers || rounds_to_count_ != 0 || counted_revision_ != revision_)
    count_round(now_ns);
}

// The arbiter looks at everybody then. It counts how long givers are waited for and pauses last; without
// either a round is nothing to it.
void Registry::count_round(std::uint64_t now_ns) {
  counted_revision_ = revision_;
  report_checks_.name_late_givers(now_ns);
  if (rounds_to_count_ == 0) return;
  --rounds_to_count_;
  ++revision_;  // a pause may have ended
}

}  // namespace terrace::daemon
