// See room.h.
#include "daemon/shares/room.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "daemon/base/size.h"

namespace terrace::daemon {

std::uint64_t Room::owners() const { return std::min({machine, user, group, job}); }

Room room_of(std::uint64_t whole, const UserShares& users, const JobKey& key, const PromisedBytes& promised,
             std::uint64_t job_most) {
  std::uint64_t taken = users.kept_from(key, promised);
  for (const auto& [uid, bytes] : promised.by_user) taken += bytes;
  const std::uint64_t kept_for_jobs = users.jobs().missing_bytes(key.uid, key, promised.by_job);
  return {.machine = minus(whole, taken),
          .user = minus(users.cap_of(key.uid), promised.to_user(key.uid) + kept_for_jobs),
          .group = users.group_room(key, promised),
          .job = job_most,
          .kept_for_jobs = kept_for_jobs};
}

Room room_for(const Members& members, const JobKey& key) {
  const UserShares& users = members.users;
  PromisedBytes promised;
  for (const auto& [other, job] : members.jobs)
    if (other != key) promised.add(other, std::max(job.promised_bytes, least_budget_bytes), users.jobs());
  const MemberJob* const job = members.find(key);
  return room_of(members.machine_bytes, users, key, promised,
                 job == nullptr ? *users.of(key).limit_bytes : job->most_bytes());
}

Refusal beyond_owners(const Room& room, const UserShares& users, const JobKey& key, std::uint64_t wanted,
                      const RoomWords& words, bool is_limited_itself) {
  const std::uint64_t left = room.owners();
  const auto refuse = [&](std::string_view whose, std::string_view remedy) {
    return Refusal{ENOSPC, left,
                   fmt::format("{} of {} does not fit: {} {} are left; ask for at most that, {}", words.what,
                               format_size(wanted), whose, format_size(left), remedy)};
  };
  const auto have_raised = [](std::string_view what) {
    return fmt::format("for no size, or have {} raised", what);
  };
  if (left == room.user)
    return refuse(
        fmt::format("of one user's {}{} only", format_size(users.cap_of(key.uid)),
                    room.kept_for_jobs == 0 ? ""
                                            : fmt::format(", of which {} are guaranteed to other jobs,",
                                                          format_size(room.kept_for_jobs))),
        have_raised(users.has_limit(key.uid) ? fmt::format("the {} in [[share]]", words.limit)
                                             : std::string(words.per_user)));
  if (left == room.group) {
    const GroupShare& group = users.groups()[*users.group_of(key.uid)];
    return refuse(
        fmt::format("of the {} of the group \"{}\" only", format_size(group.limit_bytes), group.name),
        have_raised(fmt::format("the {} in [[group]]", words.limit)));
  }
  return refuse("of what one job may have only",
                is_limited_itself ? std::string(words.job_remedy)
                : users.jobs().of(key).limit_bytes
                    ? have_raised(fmt::format("the {} in [[job]]", words.limit))
                    : std::string(words.per_job_remedy));
}

Refusal does_not_fit(const Members& members, const JobKey& key, std::uint64_t wanted) {
  constexpr RoomWords words{"a budget", "limit", "[budget] per_user",
                            "or have its limit raised (`terrace set JOB --dram-limit`)",
                            "for no size, or have [budget] per_job raised"};
  const Room room = room_for(members, key);
  if (wanted > room.machine)
    return {ENOSPC, room.owners(),
            fmt::format("a budget of {} does not fit: {} of the machine's {} are left; ask for at most that, "
                        "or wait for another job to end",
                        format_size(wanted), format_size(room.owners()), format_size(members.machine_bytes))};
  const MemberJob* const job = members.find(key);
  return beyond_owners(room, members.users, key, wanted, words,
                       job != nullptr && job->limit.bytes != no_limit);
}

}  // namespace terrace::daemon
