// See admissions.h.
#include "daemon/sessions/admissions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "daemon/base/names.h"

namespace terrace::daemon {

JobKey job_of(const wire::Hello& hello, uid_t uid) {
  return {uid, clean_name(hello.job, sizeof hello.job, "unnamed")};
}

bool is_gpu_heap(const wire::Hello& hello) { return (hello.flags & wire::hello_is_gpu_heap) != 0; }
std::string program_of(const wire::Hello& hello) {
  return clean_name(hello.program, sizeof hello.program, "?");
}

bool comes_back(const wire::Hello& hello) { return (hello.flags & wire::hello_reattach) != 0; }

void Admissions::expect(Claims claims, std::uint64_t until_ns) {
  claims_ = std::move(claims);
  expected_until_ns_ = until_ns;
}

void Admissions::look_at_clock(std::uint64_t now_ns) {
  if (claims_ && now_ns >= expected_until_ns_) claims_->forget();
}

// Of a greeting, what is on record.
wire::Hello Admissions::believed(const JobKey& job, const wire::Hello& hello) {
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
std::optional<Refusal> Admissions::promise_dram(SessionId id, const JobKey& job, const wire::Hello& hello,
                                                Admission* admission) {
  const std::uint64_t requested = hello.requested_budget_bytes;
  if (hello.weight > wire::most_weight)
    return Refusal{EINVAL, 0,
                   fmt::format("a weight of {} is not from 1 to {}", hello.weight, wire::most_weight)};
  if (!comes_back(hello)) return shares_.dram.admit(id, job, requested);
  admission->is_expected = is_on_record(job);
  if (!admission->is_expected && !shares_.dram.admit(id, job, requested)) return std::nullopt;
  const std::uint64_t held = admission->is_expected ? hello.held_budget_bytes : 0;
  if (!shares_.dram.readmit(id, job, requested, held)) admission->was_cut = true;
  return std::nullopt;
}

std::optional<Refusal> Admissions::adopt_pool(SessionId id, const JobKey& job, const wire::Hello& hello,
                                              const std::optional<PoolFile>& pool, Admission* admission) {
  if (!comes_back(hello))
    return Refusal{EBADMSG, 0, "a pool comes along only from a session with an earlier terraced"};
  if (!pool) return Refusal{EBADMSG, 0, "the pool descriptor sent along is not a regular file"};
  PoolDisk disk;
  if (auto refusal = shares_.pools.judge(*pool, job.uid, &disk)) return refusal;
  if (!shares_.pools.adopt(id, job, hello.pool_capacity_bytes, hello.pool_used_bytes, disk))
    admission->was_cut = true;
  return std::nullopt;
}

std::optional<Refusal> Admissions::check_pool_is_free(const FileId& file, const Peer& peer) const {
  for (const auto& [id, session] : sessions_) {
    if (session->peer().pid == peer.pid || !shares_.pools.holds(id, file)) continue;
    return Refusal{
        EBUSY, 0,
        fmt::format("the pool file sent along is process {}'s, which is in session", session->peer().pid)};
  }
  return std::nullopt;
}

std::optional<Refusal> Admissions::promise_pool(SessionId id, const JobKey& job, const wire::Hello& hello,
                                                const std::optional<PoolFile>& pool, Admission* admission) {
  if ((hello.flags & wire::hello_has_pool_fd) != 0) return adopt_pool(id, job, hello, pool, admission);
  if (hello.pool_wanted_bytes == 0) return std::nullopt;
  auto refusal = shares_.pools.promise(id, job, hello.pool_wanted_bytes);
  if (!refusal || hello.pool_wanted_bytes != wire::any_bytes) return refusal;
  admission->pool_problem = refusal->reason;  // "whatever there is" may be nothing
  return std::nullopt;
}

void Admissions::open_pool(const Session& session, Admission* admission) {
  if (shares_.pools.capacity_bytes(session.id()) == 0) return;
  const PoolGrant grant = shares_.pools.open_file(session.id(), session.peer().uid, session.peer().gid);
  if (grant.error == 0) {
    admission->pool_fd.reset(grant.fd);
    return;
  }
  shares_.pools.leave(session.id());
  admission->pool_problem = fmt::format("no pool file can be made in {}: {}", shares_.pools.directory(),
                                        std::strerror(grant.error));
}

// Whoever comes back has what he was given.
void Admissions::give_nvm(Session& session, Admission* admission) {
  if (!shares_.nvm || !session.takes_tiers) return;
  const PoolGrant grant =
      shares_.nvm->give(session.id(), session.job(), session.peer().uid, session.peer().gid);
  if (grant.error != 0) return;
  admission->nvm_fd.reset(grant.fd);
  session.announced_nvm_limit = shares_.nvm->limit_bytes(session.id());
}

// Like a pool, but that its job greeted without it: what is promised is looked at anew at once.
std::optional<Refusal> Admissions::hold_nvm(Session& session, const wire::NvmHeld& held,
                                            const std::optional<PoolFile>& file) {
  if (!session.reattached || session.has_told_nvm)
    return Refusal{EBADMSG, 0, "NVM comes once, and only from a session with an earlier terraced"};
  session.has_told_nvm = true;
  if (!file) return Refusal{EBADMSG, 0, "the descriptor of its NVM is not a regular file"};
  if (!shares_.nvm) return std::nullopt;
  for (const auto& [other, one] : sessions_)
    if (one->peer().pid != session.peer().pid && shares_.nvm->holds(other, file->id))
      return Refusal{EBUSY, 0,
                     fmt::format("its file on NVM is process {}'s, which is in session", one->peer().pid)};
  const JobKey& job = session.job();
  const std::uint64_t on_record = claims_ ? claims_->terms(job).nvm_bytes : held.capacity_bytes;
  const NvmPool::Brought brought{
      .capacity_bytes = on_record != 0 ? std::min(held.capacity_bytes, on_record) : held.capacity_bytes,
      .used_bytes = held.used_bytes,
      .is_on_record = on_record != 0};
  if (auto refusal = shares_.nvm->adopt(session.id(), job, brought, *file)) return refusal;
  session.announced_nvm_limit = shares_.nvm->limit_bytes(session.id());
  return std::nullopt;
}

// What `terrace set` gave a job stays with it when another process joins, and over a restart.
void Admissions::give_terms(const JobKey& job, const wire::Hello& hello) {
  const Promise had = claims_ ? claims_->terms(job) : Promise();
  const std::uint32_t weight = had.weight != 0 ? had.weight : hello.weight;
  if (weight != 0) shares_.dram.set_job_weight(job, weight);
  if (had.limit.bytes != no_limit) shares_.dram.set_job_limit(job, had.limit.bytes, had.limit.by);
}

bool Admissions::is_here(const JobKey& job) const {
  return std::any_of(sessions_.begin(), sessions_.end(),
                     [&](const auto& one) { return one.second->job() == job; });
}

// Before the job is promised anything, so that it is no more than that. What a limit is a part of may be set
// no longer.
void Admissions::give_tier_limits(const JobKey& job) {
  if (!claims_ || is_here(job)) return;
  const Promise had = claims_->terms(job);
  if (had.pool_limit.bytes != no_limit) shares_.pools.set_job_limit(job, had.pool_limit);
  if (had.writes_limit.bytes != no_limit) shares_.writes.set_job_limit(job, had.writes_limit);
  if (had.gpu_limit.bytes != no_limit) shares_.gpu.set_job_limit(job, had.gpu_limit);
}

void Admissions::leave(SessionId id, const JobKey& job) {
  shares_.dram.leave(id);
  shares_.gpu.leave(id);
  shares_.pools.leave(id);
  if (shares_.nvm) shares_.nvm->leave(id);
  shares_.writes.leave(id, job.uid);
  if (is_here(job)) return;
  shares_.pools.forget_job(job);
  shares_.writes.forget_job(job);
  shares_.gpu.forget_job(job);
}

// A heap's grants are no promises, and none is on record: what it had it has again within what its job is
// due.
std::optional<Refusal> Admissions::promise_gpu(SessionId id, const JobKey& job, const wire::Hello& hello,
                                               Admission* admission) {
  const bool is_back = comes_back(hello);
  admission->is_expected = !is_back || is_on_record(job);
  const Promise had = claims_ ? claims_->terms(job) : Promise();
  const std::uint32_t here = shares_.dram.job_weight(job);
  return shares_.gpu.join(
      id, job,
      {.device = program_of(hello),
       .device_bytes = hello.pool_capacity_bytes,
       .held_bytes = admission->is_expected ? hello.held_budget_bytes : 0,
       .is_back = is_back && admission->is_expected,
       .weight = here != 0         ? here
                 : had.weight != 0 ? had.weight
                                   : std::min<std::uint32_t>(hello.weight, wire::most_weight)});
}

std::optional<Refusal> Admissions::promise(SessionId id, const JobKey& job, const wire::Hello& hello,
                                           const std::optional<PoolFile>& pool, Admission* admission) {
  give_tier_limits(job);
  if (is_gpu_heap(hello)) return promise_gpu(id, job, hello, admission);
  const wire::Hello says = believed(job, hello);
  admission->was_cut = says.requested_budget_bytes < hello.requested_budget_bytes ||
                       says.pool_capacity_bytes < hello.pool_capacity_bytes;
  const bool is_new = shares_.dram.job_weight(job) == 0;
  if (auto refusal = promise_dram(id, job, says, admission)) return refusal;
  if (is_new) give_terms(job, hello);
  return promise_pool(id, job, says, pool, admission);
}

}  // namespace terrace::daemon
