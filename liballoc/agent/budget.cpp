#include "liballoc/agent/budget.h"

#include "liballoc/base/message.h"

namespace terrace::liballoc {
void Budget::tell_granted() {
  if (!follower_.is_open()) pager_.set_budget(granted_bytes_);
}

void Budget::follow_limit_of(const char* cgroup) {
  if (cgroup[0] == '\0') return;
  const int error = follower_.open(cgroup);
  if (error == 0) return;
  Message m(Severity::warning);
  m << "TERRACE_LIMIT_CGROUP=" << cgroup << ": not a readable memory cgroup, ";
  m.error(error) << "; the budget does not follow it";
}

void Budget::follow_limit(std::uint64_t now_ns) {
  if (!follower_.is_open() || now_ns < next_tick_ns_) return;
  next_tick_ns_ = now_ns + follower_.pause_ns();
  const bool is_dormant = take_over_.is_dormant();
  if (!is_dormant && pager_.standing().mode != Pager::Mode::paging) return;
  const std::uint64_t held = is_dormant ? take_over_.held_estimate() : pager_.budget().held_bytes();
  pager_.set_budget(follower_.budget(held, granted_bytes_));
}

}  // namespace terrace::liballoc
