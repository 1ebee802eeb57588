// See poller.h.
#include "daemon/sockets/poller.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace terrace::daemon {
namespace {

epoll_event event_of(std::uint64_t tag, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag;
  return event;
}

}  // namespace

void Poller::add(int fd, std::uint64_t tag, std::uint32_t events) const {
  epoll_event event = event_of(tag, events);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    spdlog::error("cannot watch a descriptor: {}; its client will not be served", std::strerror(errno));
}

void Poller::change(int fd, std::uint64_t tag, std::uint32_t events) const {
  epoll_event event = event_of(tag, events);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void Poller::remove(int fd) const { ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

std::span<epoll_event> Poller::wait(std::span<epoll_event> events, int timeout_ms) const {
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout_ms);
  return events.first(static_cast<std::size_t>(std::max(count, 0)));
}

}  // namespace terrace::daemon
