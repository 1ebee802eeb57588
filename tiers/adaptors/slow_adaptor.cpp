// Holds completions back until they are due.
#include "tiers/adaptors/slow_adaptor.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "tiers/monotonic_clock.h"

namespace terrace::tiers {
namespace {

constexpr std::uint64_t second_ns = 1'000'000'000;

// Split so that terabytes at a byte a second do not overflow.
std::uint64_t duration_ns(std::uint64_t bytes, std::uint64_t bytes_per_second) noexcept {
  if (bytes_per_second == 0) return 0;
  const auto rest = static_cast<double>(bytes % bytes_per_second);
  return bytes / bytes_per_second * second_ns +
         static_cast<std::uint64_t>(rest / static_cast<double>(bytes_per_second) * second_ns);
}

int watch(int epoll_fd, int fd) noexcept {
  epoll_event event{};
  event.events = EPOLLIN;
  return ::epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : errno;
}

}  // namespace

int SlowAdaptor::open() noexcept { return epoll_fd_ >= 0 ? EBUSY : open_descriptors(); }

int SlowAdaptor::open_descriptors() noexcept {
  epoll_fd_ = ::epoll_create1(EPOLL_CLOEXEC);
  timer_fd_ = ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  int error = epoll_fd_ < 0 || timer_fd_ < 0 ? errno : watch(epoll_fd_, timer_fd_);
  if (error == 0 && inner_.wait_fd() >= 0) error = watch(epoll_fd_, inner_.wait_fd());
  if (error != 0) close_descriptors();
  return error;
}

void SlowAdaptor::close_descriptors() noexcept {
  for (int* fd : {&epoll_fd_, &timer_fd_}) {
    if (*fd >= 0) ::close(*fd);
    *fd = -1;
  }
}

int SlowAdaptor::submit(const Transfer& transfer) noexcept {
  if (slots_.size() >= queue_depth()) return EAGAIN;
  Transfer inner = transfer;
  inner.token = slots_.take({.token = transfer.token});
  const int error = inner_.submit(inner);
  if (error != 0) {
    slots_.release(inner.token);
    return error;
  }
  busy_until_ns_ = due(transfer.extent.bytes);
  slots_[inner.token].due_ns = busy_until_ns_ + speed_.latency_ns;
  arm();
  return 0;
}

// When the device will have moved `bytes` more.
std::uint64_t SlowAdaptor::due(std::uint64_t bytes) const noexcept {
  return std::max(busy_until_ns_, monotonic_ns()) + duration_ns(bytes, speed_.bytes_per_second);
}

std::size_t SlowAdaptor::poll(std::span<Completion> out) noexcept {
  collect();
  const std::uint64_t now = monotonic_ns();
  std::size_t count = 0;
  for (std::uint64_t slot = 0; slot < max_queue_depth && count < out.size(); ++slot) {
    if (!slots_.holds(slot) || !slots_[slot].moved || slots_[slot].due_ns > now) continue;
    out[count++] = {slots_[slot].token, slots_[slot].error};
    slots_.release(slot);
  }
  arm();
  return count;
}

void SlowAdaptor::collect() noexcept {
  Completion done[16];
  std::size_t count = 0;
  do {
    count = inner_.poll(done);
    for (std::size_t i = 0; i < count; ++i) {
      if (!slots_.holds(done[i].token)) continue;
      slots_[done[i].token].moved = true;
      slots_[done[i].token].error = done[i].error;
    }
  } while (count == std::size(done));
}

// The timer stands for "due and moved"; a transfer that is due but not moved yet wakes through the wrapped
// tier's own descriptor, and a timer for it would only spin.
void SlowAdaptor::arm() noexcept {
  const bool inner_wakes = inner_.wait_fd() >= 0;
  const std::uint64_t now = inner_wakes ? monotonic_ns() : 0;
  std::uint64_t earliest = 0;
  for (std::uint64_t slot = 0; slot < max_queue_depth; ++slot) {
    if (!slots_.holds(slot)) continue;
    const Slot& held = slots_[slot];
    if (inner_wakes && !held.moved && held.due_ns <= now) continue;
    earliest = earliest == 0 ? held.due_ns : std::min(earliest, held.due_ns);
  }
  itimerspec when{};
  when.it_value.tv_sec = static_cast<time_t>(earliest / second_ns);
  when.it_value.tv_nsec = static_cast<long>(earliest % second_ns);
  ::timerfd_settime(timer_fd_, TFD_TIMER_ABSTIME, &when, nullptr);
}

// Timer and epoll set are shared with the parent, and setting them here would move the parent's.
int SlowAdaptor::reopen_after_fork() noexcept {
  close_descriptors();
  slots_.clear();
  busy_until_ns_ = 0;
  if (const int error = inner_.reopen_after_fork()) return error;
  return open_descriptors();
}

}  // namespace terrace::tiers
