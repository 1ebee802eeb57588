#include "tools/cli/limit_watch.h"

namespace terrace::cli {

bool LimitWatch::look(Clock::time_point now) {
  const auto left = cgroup_->waits() ? cgroup_->pages_that_left() : std::nullopt;
  if (!left || left != left_) {
    left_ = left;
    since_ = now;
    return false;
  }
  return now - since_ >= patience && cgroup_->let_kill() == 0;
}

}  // namespace terrace::cli
