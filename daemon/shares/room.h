// What a job could be promised in all, and how it is said that something is more than that. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/shares/members.h"

namespace terrace::daemon {

struct Refusal {
  int error = 0;  // errno
  std::uint64_t available_bytes = 0;
  std::string reason;
};

// What a job could be promised in all, of the machine and within each limit.
struct Room {
  std::uint64_t machine = 0;
  std::uint64_t user = 0, group = 0, job = 0;
  std::uint64_t kept_for_jobs = 0;  // for other jobs of the user, which they are guaranteed by name
  std::uint64_t owners() const;     // the narrowest of all
  std::uint64_t of(Asker by) const { return by == Asker::administrator ? machine : owners(); }
};

// The machine less other promises, a start for those without one and what is guaranteed to others; and of
// that no more than the caps and limits leave. The job need not be there.
Room room_for(const Members& members, const JobKey& key);

// ENOSPC. Names what is narrowest, and who can widen it.
Refusal does_not_fit(const Members& members, const JobKey& key, std::uint64_t wanted_bytes);

}  // namespace terrace::daemon
