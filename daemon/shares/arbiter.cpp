// See arbiter.h.
#include "daemon/shares/arbiter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "daemon/shares/shares.h"
#include "daemon/size.h"

namespace terrace::daemon {
namespace {

std::uint64_t distance(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : b - a; }

Refusal too_small(std::uint64_t wanted, std::uint64_t available) {
  return {EINVAL, available,
          fmt::format("a budget of {} is too small to page with; ask for at least {}", format_size(wanted),
                      format_size(Arbiter::minimum_bytes))};
}

Refusal is_not_running(const JobKey& key) {
  return {ENOENT, 0, fmt::format("no job \"{}\" is running; see `terrace jobs`", key.name)};
}

}  // namespace

std::uint64_t Arbiter::promised_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [key, job] : jobs_) sum += job.promised_bytes;
  return sum;
}

// What `key` could be promised in all: the machine less other promises, a start for those without one and
// what is guaranteed to others; and of that no more than its user's cap leaves.
std::uint64_t Arbiter::available_for(const JobKey& key, std::uint64_t cap_bytes) const {
  std::uint64_t taken = 0;
  std::map<std::uint32_t, std::uint64_t> promised;
  for (const auto& [other, job] : jobs_) {
    if (other == key) continue;
    const std::uint64_t bytes = std::max(job.promised_bytes, minimum_bytes);
    taken += bytes;
    promised[other.uid] += bytes;
  }
  taken += users_.kept_from(key.uid, promised);
  return std::min(minus(machine_bytes_, taken), minus(cap_bytes, promised[key.uid]));
}

Refusal Arbiter::does_not_fit(const JobKey& key, std::uint64_t wanted) const {
  const std::uint64_t left = available_for(key, no_limit);
  const std::uint64_t cap = users_.cap_of(key.uid);
  const std::uint64_t available = available_for(key, cap);
  if (wanted > left)
    return {ENOSPC, available,
            fmt::format("a budget of {} does not fit: {} of the machine's {} are left; ask for at most that, "
                        "or wait for another job to end",
                        format_size(wanted), format_size(available), format_size(machine_bytes_))};
  return {
      ENOSPC, available,
      fmt::format("a budget of {} does not fit: of one user's {} only {} are left; ask for at most that, for "
                  "no size, or have {} raised",
                  format_size(wanted), format_size(cap), format_size(available),
                  users_.has_limit(key.uid) ? "the limit in [[share]]" : "[budget] per_user")};
}

// To jobs without a promise, what they may have together.
void Arbiter::lend(std::uint64_t whole, std::vector<Job*>& borrowers) {
  std::vector<Holding> holders;
  holders.reserve(borrowers.size());
  for (const Job* job : borrowers) {
    Holding holding;
    holding.bytes = minimum_bytes;
    holding.borrows = true;
    holding.weight = job->weight;
    holders.push_back(holding);
  }
  const std::vector<std::uint64_t> lent = loans(whole, holders);
  for (std::size_t i = 0; i < lent.size(); ++i) borrowers[i]->budget_bytes = minimum_bytes + lent[i];
}

// What each job may have. Jobs are sorted by user.
void Arbiter::divide() {
  struct User {
    std::uint32_t uid = 0;
    std::vector<Job*> borrowers;
  };
  std::vector<User> users;
  std::vector<Holding> holders;
  for (auto& [key, job] : jobs_) {
    if (users.empty() || users.back().uid != key.uid) {
      const UserShare share = users_.of(key.uid);
      users.push_back({key.uid, {}});
      holders.push_back({0, false, share.weight, share.guarantee_bytes, share.limit_bytes});
    }
    holders.back().bytes += std::max(job.promised_bytes, minimum_bytes);
    job.budget_bytes = job.promised_bytes;
    job.unsettled = true;
    if (job.promised_bytes != 0) continue;
    holders.back().borrows = true;
    users.back().borrowers.push_back(&job);
  }
  const std::vector<std::uint64_t> lent = loans(machine_bytes_, holders);
  for (std::size_t i = 0; i < users.size(); ++i)
    lend(minimum_bytes * users[i].borrowers.size() + lent[i], users[i].borrowers);
}

std::uint64_t Arbiter::job_budget_bytes(const JobKey& key) const {
  const auto job = jobs_.find(key);
  return job == jobs_.end() ? 0 : job->second.budget_bytes;
}

std::uint64_t Arbiter::job_promised_bytes(const JobKey& key) const {
  const auto job = jobs_.find(key);
  return job == jobs_.end() ? 0 : job->second.promised_bytes;
}

std::uint32_t Arbiter::job_weight(const JobKey& key) const {
  const auto job = jobs_.find(key);
  return job == jobs_.end() ? 0 : job->second.weight;
}

std::uint64_t Arbiter::granted_bytes(SessionId session) const {
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? 0 : found->second.granted_bytes;
}

void Arbiter::join(SessionId id, const JobKey& key, std::uint64_t requested_bytes) {
  Job& job = jobs_[key];
  job.sessions.push_back(id);
  if (!job.fixed) job.promised_bytes = std::max(job.promised_bytes, requested_bytes);
  Session& session = sessions_[id];
  session.job = key;
  session.requested_bytes = requested_bytes;
  divide();
}

std::optional<Refusal> Arbiter::admit(SessionId id, const JobKey& key, std::uint64_t requested_bytes) {
  const auto known = jobs_.find(key);
  const bool fixed = known != jobs_.end() && known->second.fixed;
  const std::uint64_t available = available_for(key, users_.cap_of(key.uid));
  if (!fixed) {
    if (requested_bytes != 0 && requested_bytes < minimum_bytes) return too_small(requested_bytes, available);
    const std::uint64_t needed = requested_bytes != 0 ? requested_bytes : minimum_bytes;
    const bool has_it = known != jobs_.end() && known->second.promised_bytes >= needed;
    if (needed > available && !has_it) return does_not_fit(key, needed);
  }
  join(id, key, requested_bytes);
  return std::nullopt;
}

bool Arbiter::readmit(SessionId id, const JobKey& key, std::uint64_t requested_bytes,
                      std::uint64_t held_bytes) {
  const auto known = jobs_.find(key);
  const std::uint64_t most = std::max(available_for(key, users_.cap_of(key.uid)),
                                      known == jobs_.end() ? 0 : known->second.promised_bytes);
  const std::uint64_t sane = requested_bytes == 0 ? 0 : std::max(requested_bytes, minimum_bytes);
  const std::uint64_t promised = most < minimum_bytes ? 0 : std::min(sane, most);
  join(id, key, promised);
  Session& session = sessions_[id];
  session.granted_bytes = std::max(std::min(held_bytes, jobs_.at(key).budget_bytes), minimum_bytes);
  session.held_bytes = session.granted_bytes;
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
    job->second.promised_bytes = requested_bytes(job->second);
  }
  divide();
}

std::uint64_t Arbiter::requested_bytes(const Job& job) const {
  std::uint64_t most = 0;
  for (const SessionId id : job.sessions) most = std::max(most, sessions_.at(id).requested_bytes);
  return most;
}

// What it was granted before it has until it says that it has less; it cannot have got more of it since.
void Arbiter::update_held(Session& session) {
  session.held_bytes =
      std::max(session.granted_bytes, std::min(session.held_bytes, session.demand.resident_bytes));
}

void Arbiter::observe(SessionId id, const Demand& demand) {
  const auto session = sessions_.find(id);
  if (session == sessions_.end()) return;
  session->second.demand = demand;
  update_held(session->second);
}

std::vector<SessionId> Arbiter::end_round() {
  end_old_pauses();
  std::vector<SessionId> late;
  for (auto& [id, session] : sessions_) {
    if (session.demand.resident_bytes <= session.granted_bytes) session.overdue = false;
    session.waited_rounds = session.held_bytes > session.granted_bytes ? session.waited_rounds + 1 : 0;
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

std::optional<Refusal> Arbiter::set_job_budget(const JobKey& key, std::uint64_t bytes, By by) {
  const auto job = jobs_.find(key);
  if (job == jobs_.end()) return is_not_running(key);
  if (job->second.pause)
    return Refusal{EBUSY, 0, fmt::format("the job \"{0}\" is paused; `terrace resume {0}` first", key.name)};
  const std::uint64_t available =
      available_for(key, by == By::administrator ? no_limit : users_.cap_of(key.uid));
  if (bytes < minimum_bytes) return too_small(bytes, available);
  if (bytes > available) return does_not_fit(key, bytes);
  job->second.promised_bytes = bytes;
  job->second.fixed = true;
  divide();
  return std::nullopt;
}

std::optional<Refusal> Arbiter::set_job_weight(const JobKey& key, std::uint64_t weight) {
  const auto job = jobs_.find(key);
  if (job == jobs_.end()) return is_not_running(key);
  if (weight < 1 || weight > most_weight)
    return Refusal{EINVAL, 0, fmt::format("a weight of {} is not from 1 to {}", weight, most_weight)};
  job->second.weight = static_cast<std::uint32_t>(weight);
  divide();
  return std::nullopt;
}

std::optional<Refusal> Arbiter::pause(const JobKey& key, bool stays) {
  const auto found = jobs_.find(key);
  if (found == jobs_.end()) return is_not_running(key);
  Job& job = found->second;
  if (!job.pause) job.pause = Pause{job.promised_bytes, job.fixed};
  job.pause->stays = job.pause->stays || stays;
  job.pause->rounds_left = pausing_rounds;
  job.promised_bytes = minimum_bytes * job.sessions.size();
  job.fixed = true;
  divide();
  return std::nullopt;
}

// Processes may have come and gone meanwhile.
std::uint64_t Arbiter::promised_before(const Job& job) const {
  return job.pause->fixed ? job.pause->promised_bytes : requested_bytes(job);
}

std::optional<Refusal> Arbiter::resume(const JobKey& key, By by) {
  const auto found = jobs_.find(key);
  if (found == jobs_.end()) return is_not_running(key);
  if (!found->second.pause) return std::nullopt;
  const std::uint64_t promised = promised_before(found->second);
  if (promised > available_for(key, by == By::administrator ? no_limit : users_.cap_of(key.uid)))
    return does_not_fit(key, promised);
  end_pause(found->second, promised);
  return std::nullopt;
}

bool Arbiter::is_paused(const JobKey& key) const {
  const auto job = jobs_.find(key);
  return job != jobs_.end() && job->second.pause.has_value();
}

void Arbiter::end_pause(Job& job, std::uint64_t promised_bytes) {
  job.promised_bytes = promised_bytes;
  job.fixed = job.pause->fixed;
  job.pause.reset();
  divide();
}

// It runs, so that it gets what there is.
void Arbiter::end_old_pauses() {
  for (auto& [key, job] : jobs_) {
    if (!job.pause || job.pause->stays || --job.pause->rounds_left != 0) continue;
    const std::uint64_t left = available_for(key, no_limit);
    end_pause(job, left < minimum_bytes ? 0 : std::min(promised_before(job), left));
  }
}

void Arbiter::set_users(UserShares users) {
  users_ = std::move(users);
  divide();
}

void Arbiter::set_machine_budget(std::uint64_t bytes) {
  machine_bytes_ = bytes;
  divide();
}

std::vector<std::uint64_t> Arbiter::targets(const Job& job) const {
  const std::uint64_t budget = job.budget_bytes;
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
    if (distance(target[i], sessions_.at(job.sessions[i]).granted_bytes) > job.budget_bytes / 32) return true;
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
  for (const SessionId id : job.sessions) {
    const Session& session = sessions_.at(id);
    taken += std::max(session.granted_bytes, std::min(session.demand.resident_bytes, job.budget_bytes));
  }
  return minus(job.budget_bytes, taken);
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
  std::vector<Change> changes;
  std::vector<Plan> plans;
  for (auto& [key, job] : jobs_) {
    Plan plan{&job, targets(job)};
    if (worth_announcing(job, plan.target)) plans.push_back(std::move(plan));
  }
  for (const Plan& plan : plans) lower(plan, &changes);
  std::uint64_t room = room_on_machine();
  for (const Plan& plan : plans) raise(plan, &room, &changes);
  return changes;
}

}  // namespace terrace::daemon
