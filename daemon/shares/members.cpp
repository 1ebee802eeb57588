// See members.h.
#include "daemon/shares/members.h"

#include <algorithm>
#include <utility>

namespace terrace::daemon {

void Member::update_held() {
  const std::uint64_t may_take = waited_rounds < hearing_rounds ? demand.obeyed_bytes : 0;
  held_bytes = std::max(granted_bytes, std::min(held_bytes, std::max(demand.resident_bytes, may_take)));
}

void Member::report(const Demand& said) {
  demand = said;
  if (++reports % reports_until_idle == 0) peak_before_bytes = std::exchange(peak_bytes, 0);
  peak_bytes = std::max(peak_bytes, demand.live_bytes);
  update_held();
}

// What an administrator says of the running job goes before what the settings say of its name or of all jobs.
std::uint64_t MemberJob::most_bytes() const { return limit.most_beside(share.limit_bytes); }

const MemberJob* Members::find(const JobKey& key) const {
  const auto found = jobs.find(key);
  return found == jobs.end() ? nullptr : &found->second;
}

MemberJob* Members::find(const JobKey& key) {
  const auto found = jobs.find(key);
  return found == jobs.end() ? nullptr : &found->second;
}

const Member* Members::find(SessionId id) const {
  const auto found = sessions.find(id);
  return found == sessions.end() ? nullptr : &found->second;
}

Member* Members::find(SessionId id) {
  const auto found = sessions.find(id);
  return found == sessions.end() ? nullptr : &found->second;
}

std::uint64_t Members::promised_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [key, job] : jobs) sum += job.promised_bytes;
  return sum;
}

std::uint64_t Members::requested_bytes(const MemberJob& job) const {
  std::uint64_t most = 0;
  for (const SessionId id : job.sessions) most = std::max(most, sessions.at(id).requested_bytes);
  return std::min(most, job.limit.bytes);
}

std::vector<JobPart> Members::parts() const {
  std::vector<JobPart> parts;
  parts.reserve(jobs.size());
  for (const auto& [key, job] : jobs)
    parts.push_back({key.uid, job.weight(), job.promised_bytes, job.share.guarantee_bytes, job.most_bytes()});
  return parts;
}

void Members::set_users(UserShares shares) {
  users = std::move(shares);
  for (auto& [key, job] : jobs) job.share = users.of(key);
}

void Members::join(SessionId id, const JobKey& key, std::uint64_t requested_bytes) {
  MemberJob& job = jobs[key];
  if (job.sessions.empty()) job.share = users.of(key);
  job.sessions.push_back(id);
  if (!job.fixed)
    job.promised_bytes = std::min(std::max(job.promised_bytes, requested_bytes), job.limit.bytes);
  Member& session = sessions[id];
  session.job = key;
  session.requested_bytes = requested_bytes;
  divide();
}

void Members::leave(SessionId id) {
  const auto session = sessions.find(id);
  if (session == sessions.end()) return;
  const auto job = jobs.find(session->second.job);
  sessions.erase(session);
  std::erase(job->second.sessions, id);
  if (job->second.sessions.empty()) {
    jobs.erase(job);
  } else if (!job->second.fixed) {
    job->second.promised_bytes = requested_bytes(job->second);
  }
  divide();
}

void Members::divide() {
  const std::vector<std::uint64_t> due = dues(machine_bytes, least_budget_bytes, users, parts());
  std::size_t i = 0;
  for (auto& [key, job] : jobs) {
    job.budget_bytes = due[i++];
    job.unsettled = true;
  }
}

}  // namespace terrace::daemon
