// Watches a job whose allocations wait at the limit of its cgroup until Terrace has made room
// (JobCgroup::let_wait). Where nobody makes room, because what the job needs is not in Terrace's heap, the
// kernel may end the job after all, as it would without us.
//
// Version 1 only: with version 2 the kernel itself ends what memory.high cannot hold back.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "tools/cli/cgroup.h"

namespace terrace::cli {

class LimitWatch {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds pause{250};  // between two looks
  static constexpr std::chrono::seconds patience{3};

  // `cgroup` may be nullptr, and outlives it.
  explicit LimitWatch(const JobCgroup* cgroup) : cgroup_(cgroup) {}
  bool is_wanted() const { return cgroup_ != nullptr && cgroup_->lets_wait(); }
  // True: nothing has left the job's memory for as long as our patience lasts, and the job may be killed now.
  bool look(Clock::time_point now);

 private:
  const JobCgroup* cgroup_;
  std::optional<std::uint64_t> left_;  // pages, when the job was first seen to wait
  Clock::time_point since_{};
};

}  // namespace terrace::cli
