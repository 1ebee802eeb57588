#include "liballoc/agent/waiting/wait_set.h"

#include <poll.h>

#include "liballoc/base/os.h"

namespace terrace::liballoc {

void WaitSet::wait(const Sources& sources, int timeout_ms) {
  constexpr std::size_t fixed = 4;
  pollfd fds[fixed + ForkLedger::most_children];
  int children[ForkLedger::most_children];
  nfds_t n = 0;
  for (const int fd : {waker_.fd(), sources.userfault, sources.tier, sources.daemon}) {
    fds[n++] = {.fd = fd, .events = POLLIN, .revents = 0};
  }
  const std::size_t watched = pager_.extents().forks().watched(children, ForkLedger::most_children);
  for (std::size_t i = 0; i < watched; ++i) fds[n++] = {.fd = children[i], .events = 0, .revents = 0};
  const timespec limit{timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
  syscall(SYS_ppoll, fds, n, &limit, nullptr, 0);
  if ((fds[0].revents & POLLIN) != 0) waker_.drain();
  gone_count_ = 0;
  for (std::size_t i = fixed; i < n; ++i) {
    if (fds[i].revents != 0) gone_[gone_count_++] = fds[i].fd;
  }
}

void WaitSet::reap_children() {
  if (gone_count_ == 0) return;
  for (std::size_t i = 0; i < gone_count_; ++i) pager_.extents().forks().child_gone(gone_[i]);
  gone_count_ = 0;
  pager_.extents().release_unread();
}

}  // namespace terrace::liballoc
