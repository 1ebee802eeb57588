// See arbiter.h.
#include "daemon/arbiter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <numeric>

#include "daemon/size.h"

namespace terrace::daemon {
namespace {

std::uint64_t distance(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : b - a; }

Refusal does_not_fit(std::uint64_t wanted, std::uint64_t available, std::uint64_t machine) {
  return {ENOSPC, available,
          fmt::format(
              "a budget of {} does not fit: {} of the machine's {} are left; ask for at most that, or wait "
              "for another job to end",
              format_size(wanted), format_size(available), format_size(machine))};
}

Refusal too_small(std::uint64_t wanted, std::uint64_t available) {
  return {EINVAL, available,
          fmt::format("a budget of {} is too small to page with; ask for at least {}", format_size(wanted),
                      format_size(Arbiter::minimum_bytes))};
}

}  // namespace

std::vector<std::uint64_t> fair_shares(std::uint64_t whole, const std::vector<std::uint64_t>& wanted) {
  std::vector<std::size_t> order(wanted.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return wanted[a] < wanted[b]; });
  std::vector<std::uint64_t> shares(wanted.size());
  std::uint64_t left = whole;
  for (std::size_t i = 0; i < order.size(); ++i) {
    shares[order[i]] = std::min(wanted[order[i]], left / (order.size() - i));
    left -= shares[order[i]];
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::uint64_t extra = left / (order.size() - i);
    shares[order[i]] += extra;
    left -= extra;
  }
  return shares;
}

std::uint64_t Arbiter::promised_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [key, job] : jobs_) sum += job.promised_bytes;
  return sum;
}

// What `job` could be promised in all: the machine less other promises and a start for those without one.
std::uint64_t Arbiter::available_for(const JobKey& key) const {
  std::uint64_t taken = 0;
  for (const auto& [other, job] : jobs_) {
    if (other != key) taken += job.promised_bytes != 0 ? job.promised_bytes : minimum_bytes;
  }
  return minus(machine_bytes_, taken);
}

std::uint64_t Arbiter::budget_of(const Job& job) const {
  if (job.promised_bytes != 0) return job.promised_bytes;
  const auto unpromised = static_cast<std::uint64_t>(std::count_if(
      jobs_.begin(), jobs_.end(), [](const auto& entry) { return entry.second.promised_bytes == 0; }));
  return std::max(minimum_bytes,
                  minus(machine_bytes_, promised_bytes()) / std::max<std::uint64_t>(1, unpromised));
}

std::uint64_t Arbiter::job_budget_bytes(const JobKey& key) const {
  const auto job = jobs_.find(key);
  return job == jobs_.end() ? 0 : budget_of(job->second);
}

std::uint64_t Arbiter::granted_bytes(SessionId session) const {
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? 0 : found->second.granted_bytes;
}

void Arbiter::unsettle_all() {
  for (auto& [key, job] : jobs_) job.unsettled = true;
}

void Arbiter::join(SessionId id, const JobKey& key, std::uint64_t requested_bytes) {
  Job& job = jobs_[key];
  job.sessions.push_back(id);
  if (!job.fixed) job.promised_bytes = std::max(job.promised_bytes, requested_bytes);
  sessions_[id] = {key, requested_bytes, 0, {}, true};
  unsettle_all();
}

std::optional<Refusal> Arbiter::admit(SessionId id, const JobKey& key, std::uint64_t requested_bytes) {
  const auto known = jobs_.find(key);
  const bool fixed = known != jobs_.end() && known->second.fixed;
  const std::uint64_t available = available_for(key);
  if (!fixed) {
    if (requested_bytes != 0 && requested_bytes < minimum_bytes) return too_small(requested_bytes, available);
    const std::uint64_t needed = requested_bytes != 0 ? requested_bytes : minimum_bytes;
    const bool has_it = known != jobs_.end() && known->second.promised_bytes >= needed;
    if (needed > available && !has_it) return does_not_fit(needed, available, machine_bytes_);
  }
  join(id, key, requested_bytes);
  return std::nullopt;
}

bool Arbiter::readmit(SessionId id, const JobKey& key, std::uint64_t requested_bytes,
                      std::uint64_t held_bytes) {
  const auto known = jobs_.find(key);
  const std::uint64_t most =
      std::max(available_for(key), known == jobs_.end() ? 0 : known->second.promised_bytes);
  const std::uint64_t sane = requested_bytes == 0 ? 0 : std::max(requested_bytes, minimum_bytes);
  const std::uint64_t promised = most < minimum_bytes ? 0 : std::min(sane, most);
  join(id, key, promised);
  Session& session = sessions_[id];
  session.granted_bytes = std::max(std::min(held_bytes, budget_of(jobs_.at(key))), minimum_bytes);
  session.fresh = false;
  return promised == sane;
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
    job->second.promised_bytes = 0;
    for (const SessionId other : job->second.sessions)
      job->second.promised_bytes = std::max(job->second.promised_bytes, sessions_[other].requested_bytes);
  }
  unsettle_all();
}

void Arbiter::observe(SessionId id, const Demand& demand) {
  const auto session = sessions_.find(id);
  if (session != sessions_.end()) session->second.demand = demand;
}

std::optional<Refusal> Arbiter::set_job_budget(const JobKey& key, std::uint64_t bytes) {
  const auto job = jobs_.find(key);
  if (job == jobs_.end())
    return Refusal{ENOENT, 0, fmt::format("no job \"{}\" is running; see `terrace jobs`", key.name)};
  const std::uint64_t available = available_for(key);
  if (bytes < minimum_bytes) return too_small(bytes, available);
  if (bytes > available) return does_not_fit(bytes, available, machine_bytes_);
  job->second.promised_bytes = bytes;
  job->second.fixed = true;
  unsettle_all();
  return std::nullopt;
}

void Arbiter::set_machine_budget(std::uint64_t bytes) {
  machine_bytes_ = bytes;
  unsettle_all();
}

std::vector<std::uint64_t> Arbiter::targets(const Job& job, std::uint64_t budget) const {
  const std::uint64_t slack = std::min(starting_bytes, budget / job.sessions.size());
  std::vector<std::uint64_t> wanted;
  wanted.reserve(job.sessions.size());
  for (const SessionId id : job.sessions)
    wanted.push_back(std::min(budget, std::min(budget, sessions_.at(id).demand.live_bytes) + slack));
  return fair_shares(budget, wanted);
}

// Small swings of demand are not worth a message and an eviction each.
bool Arbiter::worth_announcing(const Job& job, const std::vector<std::uint64_t>& target,
                               std::uint64_t budget) const {
  if (job.unsettled) return true;
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (distance(target[i], sessions_.at(job.sessions[i]).granted_bytes) > budget / 32) return true;
  }
  return false;
}

void Arbiter::grant(SessionId id, std::uint64_t bytes, std::vector<Change>* changes) {
  Session& session = sessions_[id];
  if (session.granted_bytes == bytes && !session.fresh) return;
  session.granted_bytes = bytes;
  session.fresh = false;
  changes->push_back({id, bytes});
}

void Arbiter::rebalance_job(Job& job, std::vector<Change>* changes) {
  const std::uint64_t budget = budget_of(job);
  const auto target = targets(job, budget);
  if (!worth_announcing(job, target, budget)) return;
  std::uint64_t taken = 0;
  for (std::size_t i = 0; i < target.size(); ++i) {
    const Session& session = sessions_[job.sessions[i]];
    if (target[i] < session.granted_bytes) grant(job.sessions[i], target[i], changes);
    const std::uint64_t resident = std::min(session.demand.resident_bytes, budget);
    taken += std::max(session.granted_bytes, resident);
  }
  std::uint64_t room = minus(budget, taken);
  job.unsettled = false;
  for (std::size_t i = 0; i < target.size(); ++i) {
    const Session& session = sessions_[job.sessions[i]];
    const std::uint64_t owed = minus(target[i], session.granted_bytes);
    const std::uint64_t raise = std::min(owed, room);
    const std::uint64_t start = session.fresh ? std::min(target[i], starting_bytes) : 0;
    if (raise < owed) job.unsettled = true;
    if (owed != 0 || session.fresh)
      grant(job.sessions[i], std::max(session.granted_bytes + raise, start), changes);
    room -= raise;
  }
}

std::vector<Change> Arbiter::rebalance() {
  std::vector<Change> changes;
  for (auto& [key, job] : jobs_) rebalance_job(job, &changes);
  return changes;
}

}  // namespace terrace::daemon
