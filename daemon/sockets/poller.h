// What the loop waits for: descriptors, each under a tag of the loop's choice that comes back with its
// events. One thread.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <span>

#include "daemon/base/unique_fd.h"

namespace terrace::daemon {

class Poller {
 public:
  Poller() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}

  // Logs a failure: the descriptor's client will not be served then.
  void add(int fd, std::uint64_t tag, std::uint32_t events) const;
  // Of one that was added.
  void change(int fd, std::uint64_t tag, std::uint32_t events) const;
  void remove(int fd) const;

  // What happened by then: the first of `events`, as many as it says.
  std::span<epoll_event> wait(std::span<epoll_event> events, int timeout_ms) const;

 private:
  UniqueFd epoll_;
};

}  // namespace terrace::daemon
