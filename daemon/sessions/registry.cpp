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

JobKey job_of(const wire::Hello& hello, uid_t uid) {
  return {uid, clean_name(hello.job, sizeof hello.job, "unnamed")};
}

bool is_gpu_heap(const wire::Hello& hello) { return (hello.flags & wire::hello_is_gpu_heap) != 0; }
std::string program_of(const wire::Hello& hello) {
  return clean_name(hello.program, sizeof hello.program, "?");
}

bool comes_back(const wire::Hello& hello) { return (hello.flags & wire::hello_reattach) != 0; }

// How a counter of one process becomes one of its job.
enum class Sum { add, largest };

Sum sum_of(wire::Stat stat) {
  const bool is_peak = stat == wire::Stat::heap_peak_bytes || stat == wire::Stat::resident_peak_bytes;
  return is_peak || !wire::is_counter(stat) ? Sum::largest : Sum::add;
}

// What a process holds, as opposed to what it did: nothing, once it has ended.
constexpr wire::Stat holdings[] = {wire::Stat::heap_live_bytes, wire::Stat::resident_bytes,
                                   wire::Stat::recycled_bytes,  wire::Stat::staging_bytes,
                                   wire::Stat::stored_bytes,    wire::Stat::budget_bytes,
                                   wire::Stat::pool_used_bytes};
// The speeds of tiers are of those who move something.
constexpr bool ends_with_process(wire::Stat stat) {
  return wire::is_speed(stat) ||
         std::find(std::begin(holdings), std::end(holdings), stat) != std::end(holdings);
}

}  // namespace

void add_counters(const Counters& more, Counters* sum) {
  for (std::size_t i = 0; i < wire::stat_count; ++i) {
    const bool largest = sum_of(static_cast<wire::Stat>(i)) == Sum::largest;
    (*sum)[i] = largest ? std::max((*sum)[i], more[i]) : (*sum)[i] + more[i];
  }
}

Registry::Registry(std::uint64_t machine_bytes, Pools pools, Limits limits)
    : limits_(limits),
      arbiter_(machine_bytes),
      pools_(std::move(pools)),
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

bool Registry::is_expected(const wire::Hello& hello, uid_t uid) const {
  return comes_back(hello) && is_on_record(job_of(hello, uid));
}

// Of a greeting, what is on record.
wire::Hello Registry::believed(const JobKey& job, const wire::Hello& hello) {
  if (!claims_ || !comes_back(hello) || !claims_->has(job)) return hello;
  const Promise given =
      claims_->take(job, {hello.requested_budget_bytes, hello.held_budget_bytes, hello.pool_capacity_bytes});
  wire::Hello believed = hello;
  believed.requested_budget_bytes = given.promised_bytes;
  believed.held_budget_bytes = given.granted_bytes;
  believed.pool_capacity_bytes = given.pool_bytes;
  return believed;
}

// Who says that he is back and is not on record is treated as if he were new; but as he runs already, he is
// cut to what is left where another would be refused.
std::optional<Refusal> Registry::promise_memory(SessionId id, const JobKey& job, const wire::Hello& hello,
                                                Admission* admission) {
  const std::uint64_t requested = hello.requested_budget_bytes;
  if (hello.weight > wire::most_weight)
    return Refusal{EINVAL, 0,
                   fmt::format("a weight of {} is not from 1 to {}", hello.weight, wire::most_weight)};
  if (!comes_back(hello)) return arbiter_.admit(id, job, requested);
  admission->is_expected = is_on_record(job);
  if (!admission->is_expected && !arbiter_.admit(id, job, requested)) return std::nullopt;
  const std::uint64_t held = admission->is_expected ? hello.held_budget_bytes : 0;
  if (!arbiter_.readmit(id, job, requested, held)) admission->was_cut = true;
  return std::nullopt;
}

std::optional<Refusal> Registry::adopt_pool(SessionId id, const JobKey& job, const wire::Hello& hello,
                                            const std::optional<PoolFile>& pool, Admission* admission) {
  if (!comes_back(hello))
    return Refusal{EBADMSG, 0, "a pool comes along only from a session with an earlier terraced"};
  if (!pool) return Refusal{EBADMSG, 0, "the pool descriptor sent along is not a regular file"};
  PoolDisk disk;
  if (auto refusal = pools_.judge(*pool, job.uid, &disk)) return refusal;
  if (!pools_.adopt(id, job, hello.pool_capacity_bytes, hello.pool_used_bytes, disk))
    admission->was_cut = true;
  return std::nullopt;
}

// Two processes with one file would write over each other's data. A process that lost its connection may be
// back before we know that it is gone.
std::optional<Refusal> Registry::check_pool_is_free(const FileId& file, const Peer& peer) const {
  for (const auto& [id, session] : sessions_) {
    if (session->peer().pid == peer.pid || !pools_.holds(id, file)) continue;
    return Refusal{
        EBUSY, 0,
        fmt::format("the pool file sent along is process {}'s, which is in session", session->peer().pid)};
  }
  return std::nullopt;
}

std::optional<Refusal> Registry::promise_pool(SessionId id, const JobKey& job, const wire::Hello& hello,
                                              const std::optional<PoolFile>& pool, Admission* admission) {
  if ((hello.flags & wire::hello_has_pool_fd) != 0) return adopt_pool(id, job, hello, pool, admission);
  if (hello.pool_wanted_bytes == 0) return std::nullopt;
  auto refusal = pools_.promise(id, job, hello.pool_wanted_bytes);
  if (!refusal || hello.pool_wanted_bytes != wire::any_bytes) return refusal;
  admission->pool_problem = refusal->reason;  // "whatever there is" may be nothing
  return std::nullopt;
}

void Registry::open_pool(Session& session, Admission* admission) {
  if (pools_.capacity_bytes(session.id()) == 0) return;
  const PoolGrant grant = pools_.open_file(session.id(), session.peer().uid, session.peer().gid);
  if (grant.error == 0) {
    admission->pool_fd.reset(grant.fd);
    return;
  }
  pools_.leave(session.id());
  admission->pool_problem =
      fmt::format("no pool file can be made in {}: {}", pools_.directory(), std::strerror(grant.error));
}

// Whoever comes back has what he was given.
void Registry::give_nvm(Session& session, Admission* admission) {
  if (!nvm_ || !session.takes_tiers) return;
  const PoolGrant grant = nvm_->give(session.id(), session.job(), session.peer().uid, session.peer().gid);
  if (grant.error != 0) return;
  admission->nvm_fd.reset(grant.fd);
  session.announced_nvm_limit = nvm_->limit_bytes(session.id());
}

// Like a pool, but that its job greeted without it: what is promised is looked at anew at once.
std::optional<Refusal> Registry::hold_nvm(SessionId id, const wire::NvmHeld& held,
                                          const std::optional<PoolFile>& file) {
  Session* const session = find(id);
  if (session == nullptr || !session->reattached || session->has_told_nvm)
    return Refusal{EBADMSG, 0, "NVM comes once, and only from a session with an earlier terraced"};
  session->has_told_nvm = true;
  if (!file) return Refusal{EBADMSG, 0, "the descriptor of its NVM is not a regular file"};
  if (!nvm_) return std::nullopt;
  for (const auto& [other, one] : sessions_)
    if (one->peer().pid != session->peer().pid && nvm_->holds(other, file->id))
      return Refusal{EBUSY, 0,
                     fmt::format("its file on NVM is process {}'s, which is in session", one->peer().pid)};
  const JobKey& job = session->job();
  const std::uint64_t on_record = claims_ ? claims_->terms(job).nvm_bytes : held.capacity_bytes;
  const NvmPool::Brought brought{
      .capacity_bytes = on_record != 0 ? std::min(held.capacity_bytes, on_record) : held.capacity_bytes,
      .used_bytes = held.used_bytes,
      .is_on_record = on_record != 0};
  if (auto refusal = nvm_->adopt(id, job, brought, *file)) return refusal;
  session->announced_nvm_limit = nvm_->limit_bytes(id);
  ++revision_;
  return std::nullopt;
}

bool Registry::is_nvm_limit_due(Session& session) {
  if (!nvm_) return false;
  const std::uint64_t limit = nvm_->limit_bytes(session.id());
  const std::uint64_t before = session.announced_nvm_limit;
  const std::uint64_t moved = limit > before ? limit - before : before - limit;
  if (moved <= nvm_->capacity_bytes(session.id()) / 64) return false;
  session.announced_nvm_limit = limit;
  return true;
}

// What `terrace set` gave a job stays with it when another process joins, and over a restart.
void Registry::give_terms(const JobKey& job, const wire::Hello& hello) {
  const Promise had = claims_ ? claims_->terms(job) : Promise();
  const std::uint32_t weight = had.weight != 0 ? had.weight : hello.weight;
  if (weight != 0) arbiter_.set_job_weight(job, weight);
  if (had.limit.bytes != no_limit) arbiter_.set_job_limit(job, had.limit.bytes, had.limit.by);
}

bool Registry::is_here(const JobKey& job) const {
  return std::any_of(sessions_.begin(), sessions_.end(),
                     [&](const auto& one) { return one.second->job() == job; });
}

// Before the job is promised anything, so that it is no more than that. What a limit is a part of may be set
// no longer.
void Registry::give_tier_limits(const JobKey& job) {
  if (!claims_ || is_here(job)) return;
  const Promise had = claims_->terms(job);
  if (had.pool_limit.bytes != no_limit) pools_.set_job_limit(job, had.pool_limit);
  if (had.writes_limit.bytes != no_limit) writes_.set_job_limit(job, had.writes_limit);
  if (had.gpu_limit.bytes != no_limit) gpu_.set_job_limit(job, had.gpu_limit);
}

void Registry::forget_tier_limits(const JobKey& job) {
  if (is_here(job)) return;
  pools_.forget_job(job);
  writes_.forget_job(job);
  gpu_.forget_job(job);
}

std::optional<Refusal> Registry::promise(SessionId id, const JobKey& job, const wire::Hello& hello,
                                         const std::optional<PoolFile>& pool, Admission* admission) {
  give_tier_limits(job);
  if (is_gpu_heap(hello)) return promise_gpu(id, job, hello, admission);
  const wire::Hello says = believed(job, hello);
  admission->was_cut = says.requested_budget_bytes < hello.requested_budget_bytes ||
                       says.pool_capacity_bytes < hello.pool_capacity_bytes;
  const bool is_new = arbiter_.job_weight(job) == 0;
  if (auto refusal = promise_memory(id, job, says, admission)) return refusal;
  if (is_new) give_terms(job, hello);
  return promise_pool(id, job, says, pool, admission);
}

void Registry::turn_away(SessionId id, const JobKey& job, const Refusal& refusal, std::uint64_t now_ns) {
  arbiter_.leave(id);
  gpu_.leave(id);
  pools_.leave(id);
  forget_tier_limits(job);
  journal_.add(
      {0, now_ns, 0, job.uid, std::make_shared<const std::string>(job.name), "refused", refusal.reason, {}});
}

Admission Registry::admit(const wire::Hello& hello, const Peer& peer, const std::optional<PoolFile>& pool,
                          std::uint64_t now_ns) {
  Admission admission;
  const JobKey job = job_of(hello, peer.uid);
  const SessionId id = next_id_;
  admission.refusal = check_room(peer.uid);
  if (!admission.refusal && pool) admission.refusal = check_pool_is_free(pool->id, peer);
  if (!admission.refusal) admission.refusal = promise(id, job, hello, pool, &admission);
  Segment segment;
  const int error = admission.refusal ? 0 : Segment::create(&segment);
  if (error != 0) admission.refusal = Refusal{error, 0, "no shared memory can be made for the session"};
  if (admission.refusal) {
    turn_away(id, job, *admission.refusal, now_ns);
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
  if ((hello.flags & wire::hello_has_pool_fd) == 0) open_pool(*session, &admission);
  session->announced_pool_limit = pools_.limit_bytes(id);
  session->takes_write_leases = (hello.features & wire::feature_write_lease) != 0;
  session->takes_schedules = (hello.features & wire::feature_schedules) != 0;
  session->takes_tiers = (hello.features & wire::feature_tiers) != 0 && !is_engine && !session->reattached;
  give_nvm(*session, &admission);
  if (pools_.capacity_bytes(id) != 0) writes_.join(id, job, comes_back(hello));
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
  Promises all = claims_ ? claims_->left() : Promises();
  for (const auto& [id, session] : sessions_) {
    Promise& promise = all[session->job()];
    promise.limit = arbiter_.job_limit(session->job());
    promise.weight = arbiter_.job_said_weight(session->job());
    promise.pool_limit = pools_.users().job_limit(session->job());
    promise.writes_limit = writes_.users().job_limit(session->job());
    promise.gpu_limit = gpu_.job_limit(session->job());
    if (nvm_) promise.nvm_bytes = std::max(promise.nvm_bytes, nvm_->capacity_bytes(id));
    promise.is_paused = arbiter_.is_paused(session->job());
    if (promise.is_paused) continue;
    promise.promised_bytes = std::max(promise.promised_bytes, arbiter_.job_promised_bytes(session->job()));
    promise.granted_bytes += arbiter_.granted_bytes(id);
    promise.pool_bytes = std::max(promise.pool_bytes, pools_.capacity_bytes(id));
  }
  return all;
}

void Registry::end(SessionId id, const std::string& why, std::uint64_t now_ns) {
  Session* session = find(id);
  if (session == nullptr) return;
  take_counters(*session);
  take_events(*session, now_ns);
  remember_ended(*session, now_ns);
  tallies_.leave(id, now_ns);
  note(id, "left", why, now_ns);
  arbiter_.leave(id);
  gpu_.leave(id);
  pools_.leave(id);
  if (nvm_) nvm_->leave(id);
  writes_.leave(id, session->peer().uid);
  const JobKey job = session->job();
  sessions_.erase(id);
  forget_tier_limits(job);
  ++revision_;
}

// Bounded: the job that ended longest ago makes room.
void Registry::remember_ended(const Session& session, std::uint64_t now_ns) {
  if (session.is_gpu_heap()) return;  // its counters are of other memory than its job's
  EndedJob& ended = ended_[session.job()];
  Counters did = session.counters();
  for (std::size_t i = 0; i < wire::stat_count; ++i)
    if (ends_with_process(static_cast<wire::Stat>(i))) did[i] = 0;
  add_counters(did, &ended.totals);
  if (!session.is_engine()) ++ended.processes;
  ended.budget_bytes = arbiter_.job_budget_bytes(session.job());
  ended.ended_ns = now_ns;
  if (ended_.size() <= limits_.ended_jobs) return;
  ended_.erase(std::min_element(ended_.begin(), ended_.end(), [](const auto& a, const auto& b) {
    return a.second.ended_ns < b.second.ended_ns;
  }));
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
  for (const Change& change : arbiter_.rebalance()) take(change);
  for (const Change& change : gpu_.rebalance()) take(change);
  for (auto& [id, session] : sessions_) {
    const bool is_due = pools_.is_limit_due(id, session->announced_pool_limit);
    const bool is_nvm_due = is_nvm_limit_due(*session);
    if (!is_due && !is_nvm_due) continue;
    if (!changed.contains(id)) {
      changed[id] = {id, arbiter_.granted_bytes(id), 0};
      order.push_back(id);
    }
    if (is_nvm_due) changed[id].nvm_limit_bytes = session->announced_nvm_limit;
  }
  std::vector<Announcement> result;
  for (const SessionId id : order) {
    Announcement announcement = changed[id];
    announcement.pool_limit_bytes = pools_.limit_bytes(id);
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

}  // namespace terrace::daemon
