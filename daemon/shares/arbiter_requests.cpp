// See arbiter.h: what is asked of the arbiter for a job, and why it is refused.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "daemon/base/size.h"
#include "daemon/shares/arbiter.h"

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

std::optional<Refusal> Arbiter::admit(SessionId id, const JobKey& key, std::uint64_t requested_bytes) {
  const auto known = members_.jobs.find(key);
  const bool fixed = known != members_.jobs.end() && known->second.fixed;
  const std::uint64_t available = room_for(members_, key).owners();
  if (!fixed) {
    if (requested_bytes != 0 && requested_bytes < minimum_bytes) return too_small(requested_bytes, available);
    // Another process of a job that was limited since asks for what the first one did.
    const std::uint64_t needed =
        requested_bytes != 0 ? std::min(requested_bytes, job_limit(key).bytes) : minimum_bytes;
    const bool has_it = known != members_.jobs.end() && known->second.promised_bytes >= needed;
    if (needed > available && !has_it) return does_not_fit(members_, key, needed);
  }
  members_.join(id, key, requested_bytes);
  return std::nullopt;
}

bool Arbiter::readmit(SessionId id, const JobKey& key, std::uint64_t requested_bytes,
                      std::uint64_t held_bytes) {
  const auto known = members_.jobs.find(key);
  const std::uint64_t most = std::max(room_for(members_, key).owners(),
                                      known == members_.jobs.end() ? 0 : known->second.promised_bytes);
  const std::uint64_t sane = requested_bytes == 0 ? 0 : std::max(requested_bytes, minimum_bytes);
  const std::uint64_t promised = most < minimum_bytes ? 0 : std::min(sane, most);
  members_.join(id, key, promised);
  Member& session = members_.sessions.at(id);
  session.granted_bytes = std::max(std::min(held_bytes, members_.jobs.at(key).budget_bytes), minimum_bytes);
  // It may have borrowed more, and has that until it says that it gave it up.
  session.held_bytes = std::max(session.granted_bytes, std::min(held_bytes, members_.machine_bytes));
  session.demand.resident_bytes = session.held_bytes;
  session.fresh = false;
  return promised == sane;
}

std::optional<Refusal> Arbiter::set_job_budget(const JobKey& key, std::uint64_t bytes, By by) {
  const auto job = members_.jobs.find(key);
  if (job == members_.jobs.end()) return is_not_running(key);
  if (job->second.pause) return is_paused_now(key);
  const std::uint64_t available = room_for(members_, key).of(by);
  if (bytes < minimum_bytes) return too_small(bytes, available);
  if (bytes > job->second.limit.bytes) return beyond_limit(key, bytes, job->second.limit.bytes);
  if (bytes > available) return does_not_fit(members_, key, bytes);
  job->second.promised_bytes = bytes;
  job->second.fixed = true;
  members_.divide();
  return std::nullopt;
}

std::optional<Refusal> Arbiter::set_job_weight(const JobKey& key, std::uint64_t weight) {
  const auto job = members_.jobs.find(key);
  if (job == members_.jobs.end()) return is_not_running(key);
  if (weight < 1 || weight > most_weight)
    return Refusal{EINVAL, 0, fmt::format("a weight of {} is not from 1 to {}", weight, most_weight)};
  job->second.said_weight = static_cast<std::uint32_t>(weight);
  members_.divide();
  return std::nullopt;
}

// What is promised already is cut to it. Without a limit the job has back what it asked for, if that is left.
std::optional<Refusal> Arbiter::set_job_limit(const JobKey& key, std::uint64_t bytes, By by) {
  const auto found = members_.jobs.find(key);
  if (found == members_.jobs.end()) return is_not_running(key);
  MemberJob& job = found->second;
  if (auto refusal = refuse_to_change(job.limit, key, by)) return refusal;
  if (bytes < minimum_bytes) return too_small(bytes, room_for(members_, key).of(by));
  if (job.pause) return is_paused_now(key);
  job.limit = {bytes, by};
  const std::uint64_t most = std::max(job.promised_bytes, room_for(members_, key).of(by));
  job.promised_bytes =
      job.fixed ? std::min(job.promised_bytes, bytes) : std::min(members_.requested_bytes(job), most);
  members_.divide();
  return std::nullopt;
}

std::optional<Refusal> Arbiter::pause(const JobKey& key, bool stays) {
  const auto found = members_.jobs.find(key);
  if (found == members_.jobs.end()) return is_not_running(key);
  MemberJob& job = found->second;
  if (!job.pause) job.pause = JobPause{job.promised_bytes, job.fixed};
  job.pause->stays = job.pause->stays || stays;
  job.pause->rounds_left = pausing_rounds;
  job.promised_bytes = minimum_bytes * job.sessions.size();
  job.fixed = true;
  members_.divide();
  return std::nullopt;
}

// Processes may have come and gone meanwhile.
std::uint64_t Arbiter::promised_before(const MemberJob& job) const {
  return job.pause->fixed ? job.pause->promised_bytes : members_.requested_bytes(job);
}

std::optional<Refusal> Arbiter::resume(const JobKey& key, By by) {
  const auto found = members_.jobs.find(key);
  if (found == members_.jobs.end()) return is_not_running(key);
  if (!found->second.pause) return std::nullopt;
  const std::uint64_t promised = promised_before(found->second);
  if (promised > room_for(members_, key).of(by)) return does_not_fit(members_, key, promised);
  end_pause(found->second, promised);
  return std::nullopt;
}

void Arbiter::end_pause(MemberJob& job, std::uint64_t promised_bytes) {
  job.promised_bytes = promised_bytes;
  job.fixed = job.pause->fixed;
  job.pause.reset();
  members_.divide();
}

// It runs, so that it gets what there is.
void Arbiter::end_old_pauses() {
  for (auto& [key, job] : members_.jobs) {
    if (!job.pause || job.pause->stays || --job.pause->rounds_left != 0) continue;
    const std::uint64_t left = room_for(members_, key).machine;
    end_pause(job, left < minimum_bytes ? 0 : std::min(promised_before(job), left));
  }
}

}  // namespace terrace::daemon
