// What a job could be promised in all of something that cannot be called back once it is promised, and how it
// is said that something is more than that: of DRAM, and of the pool's space. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/base/refusal.h"
#include "daemon/shares/members.h"

namespace terrace::daemon {

// What a job could be promised in all, of the machine and within each limit.
struct Room {
  std::uint64_t machine = 0;
  std::uint64_t user = 0, group = 0, job = 0;
  std::uint64_t kept_for_jobs = 0;  // for other jobs of the user, which they are guaranteed by name
  std::uint64_t owners() const;     // the narrowest of all
  std::uint64_t of(Asker by) const { return by == Asker::administrator ? machine : owners(); }
};

// The whole less what other jobs were promised (`promised`, without this one) and what is guaranteed to
// others; and of that no more than the caps and limits leave. `job_most`: the job's own limit.
Room room_of(std::uint64_t whole, const UserShares& users, const JobKey& key, const PromisedBytes& promised,
             std::uint64_t job_most);
// The same of the machine's memory; a job without a promise counts with a start. The job need not be there.
Room room_for(const Members& members, const JobKey& key);

// How a refusal names what is divided: its keys in terraced.toml, and who can give more.
struct RoomWords {
  std::string_view what;            // is asked for: "a budget"
  std::string_view limit;           // the key of limits in [[share]], [[group]] and [[job]]
  std::string_view per_user;        // the key of the cap for all
  std::string_view job_remedy;      // where the job was limited by itself
  std::string_view per_job_remedy;  // where every job is
};

// Why `wanted_bytes` are more than the owner of the job may have, of a user, of a group or of one job:
// ENOSPC. Names what is narrowest, and who can widen it.
Refusal beyond_owners(const Room& room, const UserShares& users, const JobKey& key,
                      std::uint64_t wanted_bytes, const RoomWords& words, bool is_limited_itself);

// ENOSPC, of DRAM: what the machine has is named where that is too little.
Refusal does_not_fit(const Members& members, const JobKey& key, std::uint64_t wanted_bytes);

}  // namespace terrace::daemon
