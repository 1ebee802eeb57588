// See arbiter.h: what is asked of the arbiter for a job, and why it is refused.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "daemon/shares/arbiter.h"
#include "daemon/size.h"

namespace terrace::daemon {
namespace {

Refusal too_small(std::uint64_t wanted, std::uint64_t available) {
  return {EINVAL, available,
          fmt::format("a budget of {} is too small to page with; ask for at least {}", format_size(wanted),
                      format_size(Arbiter::minimum_bytes))};
}

Refusal beyond_limit(const JobKey& key, std::uint64_t wanted, std::uint64_t limit) {
  return {EINVAL, limit,
          fmt::format(
              "a budget of {} is more than the job's limit of {}; `terrace set {} --dram-limit` changes that",
              format_size(wanted), format_size(limit), key.name)};
}

Refusal is_not_running(const JobKey& key) {
  return {ENOENT, 0, fmt::format("no job \"{}\" is running; see `terrace jobs`", key.name)};
}

Refusal is_paused_now(const JobKey& key) {
  return {EBUSY, 0, fmt::format("the job \"{0}\" is paused; `terrace resume {0}` first", key.name)};
}

}  // namespace

std::uint64_t Arbiter::Room::owners() const { return std::min({machine, user, group, job}); }

// What `key` could be promised in all: the machine less other promises, a start for those without one and
// what is guaranteed to others; and of that no more than the caps and limits leave.
Arbiter::Room Arbiter::room_for(const JobKey& key) const {
  std::uint64_t taken = 0;
  PromisedBytes promised;
  for (const auto& [other, job] : jobs_) {
    if (other == key) continue;
    const std::uint64_t bytes = std::max(job.promised_bytes, minimum_bytes);
    taken += bytes;
    promised[other.uid] += bytes;
  }
  taken += users_.kept_from(key.uid, promised);
  const Job* const job = find(key);
  return {.machine = minus(machine_bytes_, taken),
          .user = minus(users_.cap_of(key.uid), promised[key.uid]),
          .group = users_.group_room(key.uid, promised),
          .job = job == nullptr ? users_.job_cap_of(key.uid) : most_of(key, *job)};
}

// Names what is narrowest, and who can widen it.
Refusal Arbiter::does_not_fit(const JobKey& key, std::uint64_t wanted) const {
  const Room room = room_for(key);
  const auto refuse = [&](std::string_view whose, std::uint64_t left, std::string_view remedy) {
    return Refusal{ENOSPC, room.owners(),
                   fmt::format("a budget of {} does not fit: {} {} are left; ask for at most that, {}",
                               format_size(wanted), whose, format_size(left), remedy)};
  };
  if (wanted > room.machine)
    return {ENOSPC, room.owners(),
            fmt::format("a budget of {} does not fit: {} of the machine's {} are left; ask for at most that, "
                        "or wait for another job to end",
                        format_size(wanted), format_size(room.owners()), format_size(machine_bytes_))};
  const std::uint64_t narrowest = room.owners();
  if (narrowest == room.user)
    return refuse(fmt::format("of one user's {} only", format_size(users_.cap_of(key.uid))), narrowest,
                  fmt::format("for no size, or have {} raised",
                              users_.has_limit(key.uid) ? "the limit in [[share]]" : "[budget] per_user"));
  if (narrowest == room.group) {
    const GroupShare& group = users_.groups()[*users_.group_of(key.uid)];
    return refuse(
        fmt::format("of the {} of the group \"{}\" only", format_size(group.limit_bytes), group.name),
        narrowest, "for no size, or have the limit in [[group]] raised");
  }
  return refuse("of what one job may have only", narrowest,
                find(key) != nullptr && find(key)->limit.bytes != no_limit
                    ? "or have its limit raised (`terrace set JOB --dram-limit`)"
                    : "for no size, or have [budget] per_job raised");
}

std::optional<Refusal> Arbiter::admit(SessionId id, const JobKey& key, std::uint64_t requested_bytes) {
  const auto known = jobs_.find(key);
  const bool fixed = known != jobs_.end() && known->second.fixed;
  const std::uint64_t available = room_for(key).owners();
  if (!fixed) {
    if (requested_bytes != 0 && requested_bytes < minimum_bytes) return too_small(requested_bytes, available);
    // Another process of a job that was limited since asks for what the first one did.
    const std::uint64_t needed =
        requested_bytes != 0 ? std::min(requested_bytes, job_limit(key).bytes) : minimum_bytes;
    const bool has_it = known != jobs_.end() && known->second.promised_bytes >= needed;
    if (needed > available && !has_it) return does_not_fit(key, needed);
  }
  join(id, key, requested_bytes);
  return std::nullopt;
}

bool Arbiter::readmit(SessionId id, const JobKey& key, std::uint64_t requested_bytes,
                      std::uint64_t held_bytes) {
  const auto known = jobs_.find(key);
  const std::uint64_t most =
      std::max(room_for(key).owners(), known == jobs_.end() ? 0 : known->second.promised_bytes);
  const std::uint64_t sane = requested_bytes == 0 ? 0 : std::max(requested_bytes, minimum_bytes);
  const std::uint64_t promised = most < minimum_bytes ? 0 : std::min(sane, most);
  join(id, key, promised);
  Session& session = sessions_[id];
  session.granted_bytes = std::max(std::min(held_bytes, jobs_.at(key).budget_bytes), minimum_bytes);
  // It may have borrowed more, and has that until it says that it gave it up.
  session.held_bytes = std::max(session.granted_bytes, std::min(held_bytes, machine_bytes_));
  session.demand.resident_bytes = session.held_bytes;
  session.fresh = false;
  return promised == sane;
}

std::optional<Refusal> Arbiter::set_job_budget(const JobKey& key, std::uint64_t bytes, By by) {
  const auto job = jobs_.find(key);
  if (job == jobs_.end()) return is_not_running(key);
  if (job->second.pause) return is_paused_now(key);
  const std::uint64_t available = room_for(key).of(by);
  if (bytes < minimum_bytes) return too_small(bytes, available);
  if (bytes > job->second.limit.bytes) return beyond_limit(key, bytes, job->second.limit.bytes);
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

// What is promised already is cut to it. Without a limit the job has back what it asked for, if that is left.
std::optional<Refusal> Arbiter::set_job_limit(const JobKey& key, std::uint64_t bytes, By by) {
  const auto found = jobs_.find(key);
  if (found == jobs_.end()) return is_not_running(key);
  Job& job = found->second;
  if (job.limit.bytes != no_limit && job.limit.by == By::administrator && by == By::owner)
    return Refusal{EPERM, 0,
                   fmt::format("an administrator limits the job \"{}\" to {}: ask one to change that",
                               key.name, format_size(job.limit.bytes))};
  if (bytes < minimum_bytes) return too_small(bytes, room_for(key).of(by));
  if (job.pause) return is_paused_now(key);
  job.limit = {bytes, by};
  const std::uint64_t most = std::max(job.promised_bytes, room_for(key).of(by));
  job.promised_bytes = job.fixed ? std::min(job.promised_bytes, bytes) : std::min(requested_bytes(job), most);
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
  if (promised > room_for(key).of(by)) return does_not_fit(key, promised);
  end_pause(found->second, promised);
  return std::nullopt;
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
    const std::uint64_t left = room_for(key).machine;
    end_pause(job, left < minimum_bytes ? 0 : std::min(promised_before(job), left));
  }
}

}  // namespace terrace::daemon
