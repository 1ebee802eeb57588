// What somebody says that one running job has at most of one thing (`terrace set JOB --dram-limit` and its
// like), beside what the settings say of its name. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "daemon/base/refusal.h"
#include "daemon/shares/job_key.h"

namespace terrace::daemon {

inline constexpr std::uint64_t no_limit = ~std::uint64_t{0};

// Who asks for a job.
enum class Asker { owner, administrator };

struct JobLimit {
  std::uint64_t bytes = no_limit;
  Asker by = Asker::owner;

  // Beside `of_settings`: what an administrator says of the running job goes before that, what its owner says
  // holds where it is less.
  std::uint64_t most_beside(std::optional<std::uint64_t> of_settings) const {
    const bool is_said = bytes != no_limit && by == Asker::administrator;
    return is_said ? bytes : std::min(bytes, of_settings.value_or(no_limit));
  }
  friend bool operator==(const JobLimit&, const JobLimit&) = default;
};

// EPERM: `by` may not change the limit that the job has, which an administrator set.
std::optional<Refusal> refuse_to_change(const JobLimit& limit, const JobKey& job, Asker by);

}  // namespace terrace::daemon
