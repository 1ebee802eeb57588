// A lock for a few instructions of bookkeeping, without the C library: a preloaded allocator may not wait for
// a lock that fork or malloc takes. Who finds it taken gives its processor up.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace terrace::tiers {

class SpinLock {
 public:
  constexpr SpinLock() = default;

  void lock() noexcept {
    while (is_taken_.exchange(true, std::memory_order_acquire)) ::syscall(SYS_sched_yield);
  }
  void unlock() noexcept { is_taken_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> is_taken_{false};
};

class SpinGuard {
 public:
  explicit SpinGuard(SpinLock& lock) noexcept : lock_(lock) { lock_.lock(); }
  ~SpinGuard() { lock_.unlock(); }
  SpinGuard(const SpinGuard&) = delete;
  SpinGuard& operator=(const SpinGuard&) = delete;

 private:
  SpinLock& lock_;
};

}  // namespace terrace::tiers
