// What jobs did whose processes have ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "daemon/sessions/session.h"

namespace terrace::daemon {

// What a job did in all, over processes that ended.
struct EndedJob {
  Counters totals{};
  std::uint64_t processes = 0;
  std::uint64_t budget_bytes = 0;  // the job's, when the last of them ended
  std::uint64_t ended_ns = 0;
};

// Adds `more` to `sum`. Peaks and states are not summed: the largest of one process stands.
void add_counters(const Counters& more, Counters* sum);

// Bounded: the job that ended longest ago makes room.
class EndedJobs {
 public:
  explicit EndedJobs(std::size_t most) : most_(most) {}

  // A process of it ends. GPU heaps are left out, whose counters are of other memory than their job's.
  void add(const Session& session, std::uint64_t budget_bytes, std::uint64_t now_ns);
  const std::map<JobKey, EndedJob>& all() const { return jobs_; }

 private:
  std::size_t most_;
  std::map<JobKey, EndedJob> jobs_;
};

}  // namespace terrace::daemon
