// See arbiter.h: who is there, and what is known of them. arbiter_requests.cpp says what they may have,
// arbiter_rebalance.cpp gives it to them.
#include "daemon/shares/arbiter.h"

#include <algorithm>
#include <utility>

#include "daemon/size.h"

namespace terrace::daemon {

std::uint64_t Arbiter::promised_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [key, job] : jobs_) sum += job.promised_bytes;
  return sum;
}

const Arbiter::Job* Arbiter::find(const JobKey& key) const {
  const auto found = jobs_.find(key);
  return found == jobs_.end() ? nullptr : &found->second;
}

std::uint64_t Arbiter::job_budget_bytes(const JobKey& key) const {
  const Job* const job = find(key);
  return job == nullptr ? 0 : job->budget_bytes;
}

std::uint64_t Arbiter::job_promised_bytes(const JobKey& key) const {
  const Job* const job = find(key);
  return job == nullptr ? 0 : job->promised_bytes;
}

std::uint32_t Arbiter::job_weight(const JobKey& key) const {
  const Job* const job = find(key);
  return job == nullptr ? 0 : job->weight;
}

Arbiter::JobLimit Arbiter::job_limit(const JobKey& key) const {
  const Job* const job = find(key);
  return job == nullptr ? JobLimit{} : job->limit;
}

Arbiter::JobLoan Arbiter::job_loan(const JobKey& key) const {
  const Job* const job = find(key);
  if (job == nullptr) return {};
  return {minus(job->usable_bytes, job->budget_bytes), minus(job->budget_bytes, job->usable_bytes)};
}

std::uint64_t Arbiter::granted_bytes(SessionId session) const {
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? 0 : found->second.granted_bytes;
}

void Arbiter::join(SessionId id, const JobKey& key, std::uint64_t requested_bytes) {
  Job& job = jobs_[key];
  job.sessions.push_back(id);
  if (!job.fixed)
    job.promised_bytes = std::min(std::max(job.promised_bytes, requested_bytes), job.limit.bytes);
  Session& session = sessions_[id];
  session.job = key;
  session.requested_bytes = requested_bytes;
  divide();
}

void Arbiter::leave(SessionId id) {
  const auto session = sessions_.find(id);
  if (session == sessions_.end()) return;
  const auto job = jobs_.find(session->second.job);
  sessions_.erase(session);
  std::erase(job->second.sessions, id);
  if (job->second.sessions.empty()) {
    jobs_.erase(job);
  } else if (!job->second.fixed) {
    job->second.promised_bytes = requested_bytes(job->second);
  }
  divide();
}

std::uint64_t Arbiter::requested_bytes(const Job& job) const {
  std::uint64_t most = 0;
  for (const SessionId id : job.sessions) most = std::max(most, sessions_.at(id).requested_bytes);
  return std::min(most, job.limit.bytes);
}

// What it was granted before it has until it says that it has less; it cannot have got more of it since.
void Arbiter::update_held(Session& session) {
  session.held_bytes =
      std::max(session.granted_bytes, std::min(session.held_bytes, session.demand.resident_bytes));
}

void Arbiter::observe(SessionId id, const Demand& demand) {
  const auto session = sessions_.find(id);
  if (session == sessions_.end()) return;
  Session& reports = session->second;
  reports.demand = demand;
  if (++reports.reports % idle_reports == 0) reports.peak_before_bytes = std::exchange(reports.peak_bytes, 0);
  reports.peak_bytes = std::max(reports.peak_bytes, demand.live_bytes);
  update_held(reports);
}

std::vector<SessionId> Arbiter::end_round() {
  end_old_pauses();
  std::vector<SessionId> late;
  for (auto& [id, session] : sessions_) {
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
  const auto session = sessions_.find(id);
  return session != sessions_.end() && session->second.held_bytes > session->second.granted_bytes;
}

void Arbiter::restrain(SessionId id, bool is_restrained) {
  const auto session = sessions_.find(id);
  if (session == sessions_.end() || session->second.restrained == is_restrained) return;
  session->second.restrained = is_restrained;
  jobs_.at(session->second.job).unsettled = true;
}

bool Arbiter::is_restrained(SessionId id) const {
  const auto session = sessions_.find(id);
  return session != sessions_.end() && session->second.restrained;
}

bool Arbiter::is_paused(const JobKey& key) const {
  const auto job = jobs_.find(key);
  return job != jobs_.end() && job->second.pause.has_value();
}

void Arbiter::set_users(UserShares users) {
  users_ = std::move(users);
  divide();
}

void Arbiter::set_machine_budget(std::uint64_t bytes) {
  machine_bytes_ = bytes;
  divide();
}

}  // namespace terrace::daemon
