// See lending.h.
#include "daemon/shares/lending.h"

#include <algorithm>
#include <vector>

#include "daemon/base/size.h"

namespace terrace::daemon {
namespace {

// What a job has allocated lately, an eighth more or a start for each of its processes stay with it; one that
// has just begun may be about to use all. What it would borrow is for what it has allocated. Neither follows
// small changes: they are counted in steps, and more is called idle only two steps later. Whoever was slow
// to give, or is not believed, borrows nothing.
JobUse use_of(const Members& members, MemberJob* job) {
  std::uint64_t needs = 0, wants = 0;
  bool is_trusted = true;
  for (const SessionId id : job->sessions) {
    const Member& session = members.sessions.at(id);
    const std::uint64_t peak =
        std::min(std::max(session.peak_bytes, session.peak_before_bytes), members.machine_bytes);
    needs += session.reports < reports_until_idle ? job->budget_bytes
                                                  : peak + std::max(peak / 8, starting_budget_bytes);
    wants += peak == 0 ? 0 : peak + starting_budget_bytes;
    is_trusted = is_trusted && !session.slow && !session.restrained;
  }
  const std::uint64_t step = std::max(job->budget_bytes / 32, loan_step_bytes);
  const std::uint64_t idle = minus(job->budget_bytes, needs) / step * step;
  if (idle < job->idle_bytes || idle >= job->idle_bytes + 2 * step) job->idle_bytes = idle;
  const bool may_borrow = is_trusted && !job->pause;
  return {job->budget_bytes, job->idle_bytes, may_borrow ? (wants + step - 1) / step * step : 0};
}

}  // namespace

void lend_idle(Members* members) {
  std::vector<JobUse> uses;
  uses.reserve(members->jobs.size());
  for (auto& [key, job] : members->jobs) {
    uses.push_back(use_of(*members, &job));
    if (!members->users.lends_idle()) uses.back().idle_bytes = 0;
  }
  const std::vector<std::uint64_t> has =
      with_loans(members->machine_bytes, members->users, members->parts(), uses);
  std::size_t i = 0;
  for (auto& [key, job] : members->jobs) {
    const std::uint64_t usable = has[i++];
    job.unsettled = job.unsettled || usable != job.usable_bytes;
    job.usable_bytes = usable;
  }
}

}  // namespace terrace::daemon
