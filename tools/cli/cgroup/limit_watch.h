// Watches a job whose allocations wait at the limit of its cgroup until Terrace has made room
// (JobCgroup::let_wait).
//
// Who makes room runs in the job and needs memory itself, if only for a page of its own code: it then waits
// for itself. So a job that waits while no page leaves gets a little more than its limit, in steps, and gives
// it back when pages leave. Where that does not help either, because what the job needs is not in
// Terrace's heap, the kernel may end the job after all, as it would without us.
//
// Version 1 only: with version 2 the kernel itself ends what memory.high cannot hold back.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "tools/cli/cgroup/cgroup.h"

namespace terrace::cli {

class LimitWatch {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds pause{250};         // between two looks
  static constexpr std::chrono::milliseconds until_relief{500};  // without a page that leaves
  static constexpr std::chrono::seconds patience{3};
  // With each look so much more: others that wait may take all of it, and who makes room has to be lucky
  // once.
  static constexpr std::uint64_t relief_step = std::uint64_t{2} << 20;
  static constexpr std::uint64_t most_relief = 8 * relief_step;

  // `cgroup` may be nullptr, and outlives it.
  explicit LimitWatch(const JobCgroup* cgroup) : cgroup_(cgroup) {}
  bool is_wanted() const { return cgroup_ != nullptr && cgroup_->lets_wait(); }
  // True: nothing has left the job's memory for as long as our patience lasts, and the job may be killed now.
  bool look(Clock::time_point now);

 private:
  void set_relief(std::uint64_t bytes);

  const JobCgroup* cgroup_;
  std::optional<std::uint64_t> left_;  // pages, so far
  Clock::time_point since_{};          // the last of them left, or nobody waited
  std::uint64_t relief_ = 0;           // bytes that the limit is exceeded by now
};

}  // namespace terrace::cli
