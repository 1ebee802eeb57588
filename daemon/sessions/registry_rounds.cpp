// See registry.h: what sessions report, taken in by turns and compared with what the kernel says.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "daemon/sessions/registry.h"
#include "daemon/size.h"

namespace terrace::daemon {
namespace {

// Of one round's events of one process, the last that go to the journal.
constexpr std::size_t journal_share = 512;

}  // namespace

// The next session in turn, which then is *last; there is one.
std::map<SessionId, std::unique_ptr<Session>>::iterator Registry::after(SessionId* last) {
  auto next = sessions_.upper_bound(*last);
  if (next == sessions_.end()) next = sessions_.begin();
  *last = next->first;
  return next;
}

void Registry::take_counters(Session& session) {
  session.snapshot();
  // Back from an earlier daemon, a job brings its accounts into the new segment when it reads its welcome.
  // Until then that says nothing, which must not be taken for a job that holds nothing.
  if (session.reattached && session.counter(wire::Stat::heartbeat_ns) == 0) return;
  arbiter_.observe(session.id(), {session.resident_bytes(), session.counter(wire::Stat::heap_live_bytes)});
  pools_.observe(session.id(), session.counter(wire::Stat::pool_used_bytes));
  writes_.observe(session.id(), session.counter(wire::Stat::written_bytes));
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
    read += take_events(*after(&last_read_)->second, now_ns);
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
    Session& session = *after(&last_counted_)->second;
    if (session.id() <= before) ++revision_;  // all had their turn
    take_counters(session);
    if (read < events_per_call && session.has_events_due(now_ns)) read += take_events(session, now_ns);
  }
  for (const SessionId id : givers_) {
    if (Session* session = find(id)) take_counters(*session);
  }
  end_round(now_ns);
}

void Registry::end_round(std::uint64_t now_ns) {
  if (now_ns < next_round_ns_) return;
  next_round_ns_ = now_ns + round_ns;
  if (claims_ && now_ns >= expected_until_ns_) claims_->forget();
  if (sessions_.empty()) ++revision_;
  const bool had_givers = !givers_.empty();
  find_givers();
  check_reports(now_ns);
  if (had_givers || !givers_.empty() || rounds_to_count_ != 0 || counted_revision_ != revision_)
    count_round(now_ns);
}

// The arbiter looks at everybody then. It counts how long givers are waited for and pauses last; without
// either a round is nothing to it.
void Registry::count_round(std::uint64_t now_ns) {
  counted_revision_ = revision_;
  name_late_givers(now_ns);
  if (rounds_to_count_ == 0) return;
  --rounds_to_count_;
  ++revision_;  // a pause may have ended
}

// Only who was told to give can be waited for. Room that they make is somebody's who is owed it.
void Registry::find_givers() {
  givers_.clear();
  if (!may_have_givers_) return;
  for (const auto& [id, session] : sessions_) {
    if (arbiter_.is_waited_for(id)) givers_.push_back(id);
  }
  may_have_givers_ = !givers_.empty();
  ++revision_;
}

// In turn, so that a round has a bound: those for which others wait in every round, all others now and then.
void Registry::check_reports(std::uint64_t now_ns) {
  for (std::size_t i = 0; i < std::min(checks_per_round, givers_.size()); ++i) {
    const auto next = std::upper_bound(givers_.begin(), givers_.end(), last_giver_checked_);
    last_giver_checked_ = next == givers_.end() ? givers_.front() : *next;
    check_report(*sessions_.at(last_giver_checked_), now_ns);
  }
  for (std::size_t i = 0; i < std::min(idle_checks_per_round, sessions_.size()); ++i) {
    Session& session = *after(&last_checked_)->second;
    if (now_ns >= session.checked_ns() + check_ns) check_report(session, now_ns);
  }
}

void Registry::check_report(Session& session, std::uint64_t now_ns) {
  const std::uint64_t reported = session.counter(wire::Stat::resident_bytes);
  session.check_resident(arbiter_.is_waited_for(session.id()), now_ns);
  if (!session.resident_check().is_understated(reported)) arbiter_.restrain(session.id(), false);
  if (!pools_.measure(session.id())) return;
  const std::string what = fmt::format("takes up more of {} than its pool of {}", pools_.directory(),
                                       format_size(pools_.capacity_bytes(session.id())));
  spdlog::warn("job \"{}\" {}: less is left for others' pools", *session.job_name(), what);
  note(session.id(), "overfull", what, now_ns);
}

void Registry::name_late_givers(std::uint64_t now_ns) {
  for (const SessionId id : arbiter_.end_round()) {
    const Session* session = find(id);
    if (session == nullptr) continue;
    const bool is_understated =
        session->resident_check().is_understated(session->counter(wire::Stat::resident_bytes));
    is_understated ? name_understated(*session, now_ns) : name_late(*session, now_ns);
  }
}

void Registry::name_late(const Session& session, std::uint64_t now_ns) {
  const std::string granted = format_size(arbiter_.granted_bytes(session.id()));
  spdlog::warn(
      "process {} of job \"{}\" was told to keep {} and holds more: others get memory without waiting for it",
      session.peer().pid, *session.job_name(), granted);
  note(session.id(), "overdue", "holds more than its budget of " + granted, now_ns);
}

void Registry::name_understated(const Session& session, std::uint64_t now_ns) {
  arbiter_.restrain(session.id(), true);
  const std::string what = fmt::format("was told to keep {}, reports {}, and the kernel counts {}",
                                       format_size(arbiter_.granted_bytes(session.id())),
                                       format_size(session.counter(wire::Stat::resident_bytes)),
                                       format_size(session.resident_bytes()));
  spdlog::warn("process {} of job \"{}\" {}: it is granted at most {} until its reports can be true",
               session.peer().pid, *session.job_name(), what, format_size(Arbiter::starting_bytes));
  note(session.id(), "understated", what, now_ns);
}

}  // namespace terrace::daemon
