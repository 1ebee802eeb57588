#include "tools/cli/cgroup/limit_watch.h"

namespace terrace::cli {

bool LimitWatch::look(Clock::time_point now) {
  const bool waits = cgroup_->waits();
  const auto left = cgroup_->pages_that_left();
  const bool moves = !left || left != left_;
  left_ = left;
  if (moves && relief_ != 0) set_relief(0);
  if (moves || !waits) {
    since_ = now;
    return false;
  }
  if (now - since_ >= patience) return cgroup_->let_kill() == 0;
  if (now - since_ >= until_relief && relief_ < most_relief) set_relief(relief_ + relief_step);
  return false;
}

// The kernel refuses to go back below what the job holds: the next look tries again.
void LimitWatch::set_relief(std::uint64_t bytes) {
  if (cgroup_->exceed_by(bytes) == 0) relief_ = bytes;
}

}  // namespace terrace::cli
