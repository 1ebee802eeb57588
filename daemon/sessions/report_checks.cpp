// See report_checks.h.
#include "daemon/sessions/report_checks.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "daemon/base/size.h"

namespace terrace::daemon {

bool ReportChecks::find_givers() {
  givers_.clear();
  if (!may_have_givers_) return false;
  for (const auto& [id, session] : sessions_) {
    if (session->is_gpu_heap() ? gpu_.is_waited_for(id) : arbiter_.is_waited_for(id)) givers_.push_back(id);
  }
  may_have_givers_ = !givers_.empty();
  return true;
}

void ReportChecks::check(std::uint64_t now_ns) {
  for (std::size_t i = 0; i < std::min(checks_per_round, givers_.size()); ++i) {
    const auto next = std::upper_bound(givers_.begin(), givers_.end(), last_giver_checked_);
    last_giver_checked_ = next == givers_.end() ? givers_.front() : *next;
    check_report(*sessions_.at(last_giver_checked_), now_ns);
  }
  for (std::size_t i = 0; i < std::min(idle_checks_per_round, sessions_.size()); ++i) {
    Session& session = next_in_turn(sessions_, &last_checked_);
    if (now_ns >= session.checked_ns() + check_ns) check_report(session, now_ns);
  }
}

// What the kernel counts of a process is the pager's and its engines'. Of what another session reports no
// more counts than it was granted and has not given back: else one that reports much would hide what this one
// keeps.
std::uint64_t ReportChecks::others_of_process(const Session& session) const {
  std::uint64_t bytes = 0;
  for (const SessionId id : arbiter_.sessions_of(session.job())) {
    const auto found = sessions_.find(id);
    if (id == session.id() || found == sessions_.end()) continue;
    const Session& other = *found->second;
    const bool is_beside = other.is_engine() || session.is_engine();
    if (!is_beside || other.peer().pid != session.peer().pid) continue;
    bytes += std::min(other.counter(wire::Stat::resident_bytes), arbiter_.held_bytes(id));
  }
  return bytes;
}

// Of what a heap says of a GPU's memory the kernel knows nothing.
void ReportChecks::check_report(Session& session, std::uint64_t now_ns) {
  if (session.is_gpu_heap()) return;
  const std::uint64_t reported = session.counter(wire::Stat::resident_bytes);
  session.check_resident(arbiter_.is_waited_for(session.id()), others_of_process(session), now_ns);
  if (!session.resident_check().is_understated(reported)) arbiter_.restrain(session.id(), false);
  if (!pools_.measure(session.id())) return;
  const std::string what = fmt::format("takes up more of {} than its pool of {}", pools_.directory(),
                                       format_size(pools_.capacity_bytes(session.id())));
  spdlog::warn("job \"{}\" {}: less is left for others' pools", *session.job_name(), what);
  journal_.note(session, "overfull", what, now_ns);
}

void ReportChecks::name_late_givers(std::uint64_t now_ns) {
  for (const SessionId id : arbiter_.end_round()) {
    const auto found = sessions_.find(id);
    if (found == sessions_.end()) continue;
    const Session& session = *found->second;
    const bool is_understated =
        session.resident_check().is_understated(session.counter(wire::Stat::resident_bytes));
    is_understated ? name_understated(session, now_ns) : name_late(session, now_ns);
  }
  for (const SessionId id : gpu_.end_round()) {
    if (const auto found = sessions_.find(id); found != sessions_.end())
      name_late_heap(*found->second, now_ns);
  }
}

void ReportChecks::name_late_heap(const Session& session, std::uint64_t now_ns) {
  const std::string what = fmt::format("was told to keep {} of {}, and holds and uses {}",
                                       format_size(gpu_.granted_bytes(session.id())), session.gpu,
                                       format_size(session.counter(wire::Stat::resident_bytes)));
  spdlog::warn(
      "the GPU heap of process {} of job \"{}\" {}: others are granted memory without waiting for this heap",
      session.peer().pid, *session.job_name(), what);
  journal_.note(session, "overdue", what, now_ns);
}

void ReportChecks::name_late(const Session& session, std::uint64_t now_ns) {
  const std::string granted = format_size(arbiter_.granted_bytes(session.id()));
  spdlog::warn(
      "process {} of job \"{}\" was told to keep {} and holds more: others get memory without waiting for "
      "this process",
      session.peer().pid, *session.job_name(), granted);
  journal_.note(session, "overdue", "holds more than its budget of " + granted, now_ns);
}

void ReportChecks::name_understated(const Session& session, std::uint64_t now_ns) {
  arbiter_.restrain(session.id(), true);
  const std::string what = fmt::format("was told to keep {}, reports {}, and the kernel counts {}",
                                       format_size(arbiter_.granted_bytes(session.id())),
                                       format_size(session.counter(wire::Stat::resident_bytes)),
                                       format_size(session.resident_bytes()));
  spdlog::warn("process {} of job \"{}\" {}: it is granted at most {} until its reports can be true",
               session.peer().pid, *session.job_name(), what, format_size(Arbiter::starting_bytes));
  journal_.note(session, "understated", what, now_ns);
}

}  // namespace terrace::daemon
