// See registry.h.
#include "daemon/sessions/registry.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "daemon/base/names.h"
#include "daemon/base/size.h"

namespace terrace::daemon {
namespace {

Refusal too_many(const char* what, std::size_t most) {
  return {EUSERS, 0, fmt::format("{} are in session already (at most {}); wait for one to end", what, most)};
}

// Notes that it is told.
bool is_nvm_limit_due(const NvmPool& nvm, Session& session) {
  const std::uint64_t limit = nvm.limit_bytes(session.id());
  const std::uint64_t before = session.announced_nvm_limit;
  const std::uint64_t moved = limit > before ? limit - before : before - limit;
  if (moved <= nvm.capacity_bytes(session.id()) / 64) return false;
  session.announced_nvm_limit = limit;
  return true;
}

}  // namespace

Registry::Registry(std::uint64_t machine_bytes, Pools pools, Limits limits)
    : limits_(limits),
      shares_{.dram = Arbiter(machine_bytes), .pools = std::move(pools)},
      ended_(limits.ended_jobs),
      tallies_(limits.jobs_apart),
      scratch_(Session::events_per_round) {}

Session* Registry::find(SessionId session) {
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? nullptr : found->second.get();
}

std::optional<Refusal> Registry::check_room(uid_t uid) const {
  if (sessions_.size() >= limits_.sessions) return too_many("too many processes", limits_.sessions);
  const auto of_user = static_cast<std::size_t>(std::count_if(
      sessions_.begin(), sessions_.end(), [uid](const auto& s) { return s.second->peer().uid == uid; }));
  if (of_user >= limits_.sessions_per_user)
    return too_many("too many processes of this user", limits_.sessions_per_user);
  return std::nullopt;
}

std::optional<Refusal> Registry::hold_nvm(SessionId id, const wire::NvmHeld& held,
                                          const std::optional<PoolFile>& file) {
  Session* const session = find(id);
  if (session == nullptr) return Refusal{EBADMSG, 0, "NVM comes only from a session"};
  auto refusal = admissions_.hold_nvm(*session, held, file);
  if (!refusal) ++revision_;
  return refusal;
}

Admission Registry::admit(const wire::Hello& hello, const Peer& peer, const std::optional<PoolFile>& pool,
                          std::uint64_t now_ns) {
  Admission admission;
  const JobKey job = job_of(hello, peer.uid);
  const SessionId id = next_id_;
  admission.refusal = check_room(peer.uid);
  if (!admission.refusal && pool) admission.refusal = admissions_.check_pool_is_free(pool->id, peer);
  if (!admission.refusal) admission.refusal = admissions_.promise(id, job, hello, pool, &admission);
  Segment segment;
  const int error = admission.refusal ? 0 : Segment::create(&segment);
  if (error != 0) admission.refusal = Refusal{error, 0, "no shared memory can be made for the session"};
  if (admission.refusal) {
    admissions_.leave(id, job);
    journal_.add({0,
                  now_ns,
                  0,
                  job.uid,
                  std::make_shared<const std::string>(job.name),
                  "refused",
                  admission.refusal->reason,
                  {}});
    return admission;
  }
  ++next_id_;
  const std::string program = program_of(hello);
  const bool is_engine = (hello.flags & wire::hello_is_engine) != 0;
  const std::string called = is_gpu_heap(hello) ? "GPU heap on " + program
                             : is_engine        ? "offload engine on " + program
                                                : program;
  auto session = std::make_unique<Session>(id, peer, job, called, std::move(segment));
  if (is_gpu_heap(hello))
    session->gpu = program;
  else if (is_engine)
    session->device = program;
  session->reattached = comes_back(hello);
  if ((hello.flags & wire::hello_has_pool_fd) == 0) admissions_.open_pool(*session, &admission);
  session->announced_pool_limit = shares_.pools.limit_bytes(id);
  session->takes_write_leases = (hello.features & wire::feature_write_lease) != 0;
  session->takes_schedules = (hello.features & wire::feature_schedules) != 0;
  session->takes_tiers = (hello.features & wire::feature_tiers) != 0 && !is_engine && !session->reattached;
  admissions_.give_nvm(*session, &admission);
  if (shares_.pools.capacity_bytes(id) != 0) shares_.writes.join(id, job, comes_back(hello));
  tallies_.join(id, job, session->reattached, now_ns);
  admission.session = session.get();
  sessions_[id] = std::move(session);
  ++revision_;
  note(id, admission.session->reattached ? "reattached" : "joined", admission.session->program(), now_ns);
  return admission;
}

// Of a job that is here in part both count: what it has, and what its other processes may come back for. What
// a paused job was promised is there for others: it asks anew when it is resumed.
Promises Registry::promises() const {
  Promises all = admissions_.left();
  for (const auto& [id, session] : sessions_) {
    Promise& promise = all[session->job()];
    promise.limit = shares_.dram.job_limit(session->job());
    promise.weight = shares_.dram.job_said_weight(session->job());
    promise.pool_limit = shares_.pools.users().job_limit(session->job());
    promise.writes_limit = shares_.writes.users().job_limit(session->job());
    promise.gpu_limit = shares_.gpu.job_limit(session->job());
    if (shares_.nvm) promise.nvm_bytes = std::max(promise.nvm_bytes, shares_.nvm->capacity_bytes(id));
    promise.is_paused = shares_.dram.is_paused(session->job());
    if (promise.is_paused) continue;
    promise.promised_bytes =
        std::max(promise.promised_bytes, shares_.dram.job_promised_bytes(session->job()));
    promise.granted_bytes += shares_.dram.granted_bytes(id);
    promise.pool_bytes = std::max(promise.pool_bytes, shares_.pools.capacity_bytes(id));
  }
  return all;
}

void Registry::end(SessionId id, const std::string& why, std::uint64_t now_ns) {
  Session* session = find(id);
  if (session == nullptr) return;
  take_counters(*session);
  take_events(*session, now_ns);
  ended_.add(*session, shares_.dram.job_budget_bytes(session->job()), now_ns);
  tallies_.leave(id, now_ns);
  note(id, "left", why, now_ns);
  const JobKey job = session->job();
  sessions_.erase(id);
  admissions_.leave(id, job);
  ++revision_;
}

std::vector<Announcement> Registry::announcements() {
  if (announced_revision_ == revision_) return {};
  announced_revision_ = revision_;
  std::map<SessionId, Announcement> changed;
  std::vector<SessionId> order;  // givers first, as the arbiter says
  const auto take = [&](const Change& change) {
    changed[change.session] = {change.session, change.budget_bytes, 0};
    order.push_back(change.session);
  };
  for (const Change& change : shares_.dram.rebalance()) take(change);
  for (const Change& change : shares_.gpu.rebalance()) take(change);
  for (auto& [id, session] : sessions_) {
    const bool is_due = shares_.pools.is_limit_due(id, session->announced_pool_limit);
    const bool is_nvm_due = shares_.nvm && is_nvm_limit_due(*shares_.nvm, *session);
    if (!is_due && !is_nvm_due) continue;
    if (!changed.contains(id)) {
      changed[id] = {id, shares_.dram.granted_bytes(id), 0};
      order.push_back(id);
    }
    if (is_nvm_due) changed[id].nvm_limit_bytes = session->announced_nvm_limit;
  }
  std::vector<Announcement> result;
  for (const SessionId id : order) {
    Announcement announcement = changed[id];
    announcement.pool_limit_bytes = shares_.pools.limit_bytes(id);
    Session* const session = find(id);
    if (session == nullptr) continue;
    session->announced_pool_limit = announcement.pool_limit_bytes;
    result.push_back(announcement);
  }
  if (result.empty()) return result;
  ++revision_;  // what was lowered may make room for what could not be raised yet
  report_checks_.budgets_were_told();
  return result;
}

void Registry::note(SessionId id, const char* kind, std::string text, std::uint64_t now_ns) {
  if (const Session* session = find(id)) journal_.note(*session, kind, std::move(text), now_ns);
}

std::optional<Refusal> Registry::set_job_weight(const JobKey& job, std::uint64_t weight) {
  auto refusal = change_arbiter().set_job_weight(job, weight);
  if (refusal && refusal->error != ENOENT) return refusal;
  return shares_.gpu.set_job_weight(job, weight) ? std::nullopt : refusal;
}

}  // namespace terrace::daemon
