// See arbiter.h: what each job may have, and grants that follow it.
#include <algorithm>

#include "daemon/shares/arbiter.h"
#include "daemon/shares/shares.h"
#include "daemon/size.h"

namespace terrace::daemon {
namespace {

std::uint64_t distance(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : b - a; }

}  // namespace

// What an administrator says of the job goes before what is said of all jobs.
std::uint64_t Arbiter::most_of(const JobKey& key, const Job& job) const {
  const bool is_said = job.limit.bytes != no_limit && job.limit.by == By::administrator;
  return is_said ? job.limit.bytes : std::min(job.limit.bytes, users_.job_cap_of(key.uid));
}

std::vector<JobPart> Arbiter::parts() const {
  std::vector<JobPart> parts;
  parts.reserve(jobs_.size());
  for (const auto& [key, job] : jobs_)
    parts.push_back({key.uid, job.weight, job.promised_bytes, most_of(key, job)});
  return parts;
}

void Arbiter::divide() {
  const std::vector<std::uint64_t> due = dues(machine_bytes_, minimum_bytes, users_, parts());
  std::size_t i = 0;
  for (auto& [key, job] : jobs_) {
    job.budget_bytes = due[i++];
    job.unsettled = true;
  }
}

// What a job has allocated lately, an eighth more or a start for each of its processes stay with it; one that
// has just begun may be about to use all. What it would borrow is for what it has allocated. Neither follows
// small changes: they are counted in steps, and more is called idle only two steps later. Whoever was slow
// to give, or is not believed, borrows nothing.
JobUse Arbiter::use_of(Job& job) const {
  std::uint64_t needs = 0, wants = 0;
  bool is_trusted = true;
  for (const SessionId id : job.sessions) {
    const Session& session = sessions_.at(id);
    const std::uint64_t peak =
        std::min(std::max(session.peak_bytes, session.peak_before_bytes), machine_bytes_);
    needs += session.reports < idle_reports ? job.budget_bytes : peak + std::max(peak / 8, starting_bytes);
    wants += peak == 0 ? 0 : peak + starting_bytes;
    is_trusted = is_trusted && !session.slow && !session.restrained;
  }
  const std::uint64_t step = std::max(job.budget_bytes / 32, lending_step_bytes);
  const std::uint64_t idle = minus(job.budget_bytes, needs) / step * step;
  if (idle < job.idle_bytes || idle >= job.idle_bytes + 2 * step) job.idle_bytes = idle;
  const bool may_borrow = is_trusted && !job.pause;
  return {job.budget_bytes, job.idle_bytes, may_borrow ? (wants + step - 1) / step * step : 0};
}

void Arbiter::lend_idle() {
  std::vector<JobUse> uses;
  uses.reserve(jobs_.size());
  for (auto& [key, job] : jobs_) {
    uses.push_back(use_of(job));
    if (!users_.lends_idle()) uses.back().idle_bytes = 0;
  }
  const std::vector<std::uint64_t> has = with_loans(machine_bytes_, users_, parts(), uses);
  std::size_t i = 0;
  for (auto& [key, job] : jobs_) {
    const std::uint64_t usable = has[i++];
    job.unsettled = job.unsettled || usable != job.usable_bytes;
    job.usable_bytes = usable;
  }
}

std::vector<std::uint64_t> Arbiter::targets(const Job& job) const {
  const std::uint64_t budget = job.usable_bytes;
  const std::uint64_t slack = std::min(starting_bytes, budget / job.sessions.size());
  std::vector<std::uint64_t> wanted;
  wanted.reserve(job.sessions.size());
  for (const SessionId id : job.sessions)
    wanted.push_back(std::min(budget, std::min(budget, sessions_.at(id).demand.live_bytes) + slack));
  std::vector<std::uint64_t> shares = fair_shares(budget, wanted);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (sessions_.at(job.sessions[i]).restrained) shares[i] = std::min(shares[i], starting_bytes);
  }
  return shares;
}

// Small swings of demand are not worth a message and an eviction each.
bool Arbiter::worth_announcing(const Job& job, const std::vector<std::uint64_t>& target) const {
  if (job.unsettled) return true;
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (distance(target[i], sessions_.at(job.sessions[i]).granted_bytes) > job.usable_bytes / 32) return true;
  }
  return false;
}

void Arbiter::grant(SessionId id, std::uint64_t bytes, std::vector<Change>* changes) {
  Session& session = sessions_[id];
  if (session.granted_bytes == bytes && !session.fresh) return;
  session.granted_bytes = bytes;
  session.fresh = false;
  update_held(session);
  changes->push_back({id, bytes});
}

std::uint64_t Arbiter::room_on_machine() const {
  std::uint64_t held = 0;
  for (const auto& [id, session] : sessions_) held += session.held_bytes;
  return minus(machine_bytes_, held);
}

std::uint64_t Arbiter::room_in(const Job& job) const {
  std::uint64_t taken = 0;
  for (const SessionId id : job.sessions) taken += sessions_.at(id).held_bytes;
  return minus(job.usable_bytes, taken);
}

void Arbiter::lower(const Plan& plan, std::vector<Change>* changes) {
  for (std::size_t i = 0; i < plan.target.size(); ++i) {
    const SessionId id = plan.job->sessions[i];
    if (plan.target[i] < sessions_.at(id).granted_bytes) grant(id, plan.target[i], changes);
  }
}

// One that just joined gets a start from the machine's room where the job has none, and the minimum in any
// case: with less it cannot page.
void Arbiter::raise(const Plan& plan, std::uint64_t* machine_room, std::vector<Change>* changes) {
  Job& job = *plan.job;
  std::uint64_t room = room_in(job);
  job.unsettled = false;
  for (std::size_t i = 0; i < plan.target.size(); ++i) {
    const Session& session = sessions_.at(job.sessions[i]);
    const std::uint64_t target = plan.target[i], before = session.granted_bytes;
    const std::uint64_t owed = minus(target, before);
    if (owed == 0 && !session.fresh) continue;
    const std::uint64_t raised = std::min({owed, room, *machine_room});
    const std::uint64_t start =
        session.fresh ? std::min({target, starting_bytes, std::max(*machine_room, minimum_bytes)}) : 0;
    if (raised < owed) job.unsettled = true;
    room -= raised;
    grant(job.sessions[i], std::max(before + raised, start), changes);
    *machine_room = minus(*machine_room, session.granted_bytes - before);
  }
}

std::vector<Change> Arbiter::rebalance() {
  lend_idle();
  std::vector<Change> changes;
  std::vector<Plan> plans;
  for (auto& [key, job] : jobs_) {
    Plan plan{&job, targets(job)};
    if (worth_announcing(job, plan.target)) plans.push_back(std::move(plan));
  }
  for (const Plan& plan : plans) lower(plan, &changes);
  // Who asks for what is his goes before those who borrow more.
  std::stable_partition(plans.begin(), plans.end(),
                        [](const Plan& plan) { return plan.job->usable_bytes <= plan.job->budget_bytes; });
  std::uint64_t room = room_on_machine();
  for (const Plan& plan : plans) raise(plan, &room, &changes);
  return changes;
}

}  // namespace terrace::daemon
