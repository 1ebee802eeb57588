// A futex mutex without libc: usable before constructors run, inside malloc, on the agent thread, and
// re-initialised in a forked child by one store.
//
// Clang's thread-safety annotations are carried so that `clang -Wthread-safety` checks who holds what.
#pragma once

#include <atomic>
#include <cstdint>

#include "liballoc/base/os.h"

#if defined(__clang__)
#define TERRACE_TSA(x) __attribute__((x))
#else
#define TERRACE_TSA(x)
#endif
#define TERRACE_GUARDED_BY(x) TERRACE_TSA(guarded_by(x))
#define TERRACE_REQUIRES(x) TERRACE_TSA(requires_capability(x))

namespace terrace::liballoc {

class TERRACE_TSA(capability("mutex")) Lock {
 public:
  void lock() TERRACE_TSA(acquire_capability()) {
    std::uint32_t expected = free;
    if (word_.compare_exchange_strong(expected, held, std::memory_order_acquire)) return;
    // Critical sections are a few microseconds: spin shortly before sleeping.
    for (int i = 0; i < 100; ++i) {
      __builtin_ia32_pause();
      expected = free;
      if (word_.compare_exchange_weak(expected, held, std::memory_order_acquire)) return;
    }
    while (word_.exchange(contended, std::memory_order_acquire) != free) os::futex_wait(raw(), contended);
  }
  // For who must not wait for the holder: gives up after some 100 us.
  bool try_lock_for_a_while() TERRACE_TSA(try_acquire_capability(true)) {
    for (int round = 0; round < 8; ++round) {
      for (int i = 0; i < 200; ++i) {
        std::uint32_t expected = free;
        if (word_.compare_exchange_strong(expected, held, std::memory_order_acquire)) return true;
        __builtin_ia32_pause();
      }
      syscall(SYS_sched_yield);
    }
    return false;
  }
  void unlock() TERRACE_TSA(release_capability()) {
    if (word_.exchange(free, std::memory_order_release) == contended) os::futex_wake(raw(), 1);
  }
  // In a forked child only: whoever held it does not exist here.
  void reset_after_fork() { word_.store(free, std::memory_order_relaxed); }

 private:
  enum : std::uint32_t { free = 0, held = 1, contended = 2 };
  const std::uint32_t* raw() const { return reinterpret_cast<const std::uint32_t*>(&word_); }
  std::atomic<std::uint32_t> word_{free};
};

class TERRACE_TSA(scoped_lockable) LockGuard {
 public:
  explicit LockGuard(Lock& lock) TERRACE_TSA(acquire_capability(lock)) : lock_(lock) { lock_.lock(); }
  ~LockGuard() TERRACE_TSA(release_capability()) { lock_.unlock(); }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  Lock& lock_;
};

}  // namespace terrace::liballoc
