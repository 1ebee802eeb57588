// See arbiter.h: what is told and asked of those who are there. arbiter_requests.cpp says what they may have.
#include "daemon/shares/arbiter.h"

#include <algorithm>
#include <utility>

#include "daemon/base/size.h"
#include "daemon/shares/lending.h"

namespace terrace::daemon {

std::uint64_t Arbiter::job_budget_bytes(const JobKey& key) const {
  const MemberJob* const job = members_.find(key);
  return job == nullptr ? 0 : job->budget_bytes;
}

std::uint64_t Arbiter::job_promised_bytes(const JobKey& key) const {
  const MemberJob* const job = members_.find(key);
  return job == nullptr ? 0 : job->promised_bytes;
}

std::uint32_t Arbiter::job_weight(const JobKey& key) const {
  const MemberJob* const job = members_.find(key);
  return job == nullptr ? 0 : job->weight();
}

std::uint32_t Arbiter::job_said_weight(const JobKey& key) const {
  const MemberJob* const job = members_.find(key);
  return job == nullptr ? 0 : job->said_weight;
}

JobLimit Arbiter::job_limit(const JobKey& key) const {
  const MemberJob* const job = members_.find(key);
  return job == nullptr ? JobLimit{} : job->limit;
}

Arbiter::JobLoan Arbiter::job_loan(const JobKey& key) const {
  const MemberJob* const job = members_.find(key);
  if (job == nullptr) return {};
  return {minus(job->usable_bytes, job->budget_bytes), minus(job->budget_bytes, job->usable_bytes)};
}

std::uint64_t Arbiter::granted_bytes(SessionId id) const {
  const Member* const session = members_.find(id);
  return session == nullptr ? 0 : session->granted_bytes;
}

std::uint64_t Arbiter::held_bytes(SessionId id) const {
  const Member* const session = members_.find(id);
  return session == nullptr ? 0 : std::max(session->held_bytes, session->granted_bytes);
}

std::span<const SessionId> Arbiter::sessions_of(const JobKey& key) const {
  const MemberJob* const job = members_.find(key);
  return job == nullptr ? std::span<const SessionId>() : job->sessions;
}

void Arbiter::observe(SessionId id, const Demand& demand) {
  if (Member* const session = members_.find(id)) session->report(demand);
}

std::vector<SessionId> Arbiter::end_round() {
  end_old_pauses();
  std::vector<SessionId> late;
  for (auto& [id, session] : members_.sessions) {
    if (session.demand.resident_bytes <= session.granted_bytes) session.overdue = false;
    session.waited_rounds = session.held_bytes > session.granted_bytes ? session.waited_rounds + 1 : 0;
    session.slow = session.slow || session.waited_rounds > slow_rounds;
    if (session.waited_rounds <= patience_rounds) continue;
    session.held_bytes = session.granted_bytes;
    if (!session.overdue) late.push_back(id);
    session.overdue = true;
  }
  return late;
}

bool Arbiter::is_waited_for(SessionId id) const {
  const Member* const session = members_.find(id);
  return session != nullptr && session->held_bytes > session->granted_bytes;
}

void Arbiter::restrain(SessionId id, bool is_restrained) {
  Member* const session = members_.find(id);
  if (session == nullptr || session->restrained == is_restrained) return;
  session->restrained = is_restrained;
  members_.find(session->job)->unsettled = true;
}

bool Arbiter::is_restrained(SessionId id) const {
  const Member* const session = members_.find(id);
  return session != nullptr && session->restrained;
}

bool Arbiter::is_paused(const JobKey& key) const {
  const MemberJob* const job = members_.find(key);
  return job != nullptr && job->pause.has_value();
}

std::vector<Change> Arbiter::rebalance() {
  lend_idle(&members_);
  return daemon::rebalance(&members_);
}

void Arbiter::set_users(UserShares users) {
  members_.set_users(std::move(users));
  members_.divide();
}

void Arbiter::set_machine_budget(std::uint64_t bytes) {
  members_.machine_bytes = bytes;
  members_.divide();
}

}  // namespace terrace::daemon
