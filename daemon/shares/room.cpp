// See room.h.
#include "daemon/shares/room.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "daemon/base/size.h"

namespace terrace::daemon {

std::uint64_t Room::owners() const { return std::min({machine, user, group, job}); }

Room room_for(const Members& members, const JobKey& key) {
  const UserShares& users = members.users;
  std::uint64_t taken = 0;
  PromisedBytes promised;
  for (const auto& [other, job] : members.jobs) {
    if (other == key) continue;
    const std::uint64_t bytes = std::max(job.promised_bytes, least_budget_bytes);
    taken += bytes;
    promised.by_user[other.uid] += bytes;
    if (users.jobs().guarantees(other)) promised.by_job[other] = bytes;
  }
  taken += users.kept_from(key, promised);
  const std::uint64_t kept_for_jobs = users.jobs().missing_bytes(key.uid, key, promised.by_job);
  const MemberJob* const job = members.find(key);
  return {.machine = minus(members.machine_bytes, taken),
          .user = minus(users.cap_of(key.uid), promised.to_user(key.uid) + kept_for_jobs),
          .group = users.group_room(key, promised),
          .job = job == nullptr ? *users.of(key).limit_bytes : job->most_bytes(),
          .kept_for_jobs = kept_for_jobs};
}

Refusal does_not_fit(const Members& members, const JobKey& key, std::uint64_t wanted) {
  const Room room = room_for(members, key);
  const auto refuse = [&](std::string_view whose, std::uint64_t left, std::string_view remedy) {
    return Refusal{ENOSPC, room.owners(),
                   fmt::format("a budget of {} does not fit: {} {} are left; ask for at most that, {}",
                               format_size(wanted), whose, format_size(left), remedy)};
  };
  if (wanted > room.machine)
    return {ENOSPC, room.owners(),
            fmt::format("a budget of {} does not fit: {} of the machine's {} are left; ask for at most that, "
                        "or wait for another job to end",
                        format_size(wanted), format_size(room.owners()), format_size(members.machine_bytes))};
  const std::uint64_t narrowest = room.owners();
  if (narrowest == room.user)
    return refuse(
        fmt::format("of one user's {}{} only", format_size(members.users.cap_of(key.uid)),
                    room.kept_for_jobs == 0 ? ""
                                            : fmt::format(", of which {} are guaranteed to other jobs,",
                                                          format_size(room.kept_for_jobs))),
        narrowest,
        fmt::format("for no size, or have {} raised",
                    members.users.has_limit(key.uid) ? "the limit in [[share]]" : "[budget] per_user"));
  if (narrowest == room.group) {
    const GroupShare& group = members.users.groups()[*members.users.group_of(key.uid)];
    return refuse(
        fmt::format("of the {} of the group \"{}\" only", format_size(group.limit_bytes), group.name),
        narrowest, "for no size, or have the limit in [[group]] raised");
  }
  return refuse("of what one job may have only", narrowest,
                members.find(key) != nullptr && members.find(key)->limit.bytes != no_limit
                    ? "or have its limit raised (`terrace set JOB --dram-limit`)"
                : members.users.jobs().of(key).limit_bytes
                    ? "for no size, or have the limit in [[job]] raised"
                    : "for no size, or have [budget] per_job raised");
}

}  // namespace terrace::daemon
