// No signal handler of the program runs while its thread holds the heap's lock or the gate.
//
// A handler may touch any memory. If that is evicted it waits for the agent, and the agent needs the lock
// that the interrupted thread holds. So signals wait for the microseconds of a critical section (a fork's is
// longer), but those that a thread raises itself, which must not be put off. libc's own (cancellation, setuid
// for all threads) are blocked too, hence the system call and not pthread_sigmask.
//
// Without a pager nothing is evicted and nobody waits: Heap::may_page() tells, and does not change once the
// heap is up.
#pragma once

#include <signal.h>

#include <cstdint>

#include "liballoc/lock.h"
#include "liballoc/os.h"

namespace terrace::liballoc {

constexpr std::uint64_t signal_bit(int signal) { return std::uint64_t{1} << (signal - 1); }
constexpr std::uint64_t signals_put_off =
    ~(signal_bit(SIGSEGV) | signal_bit(SIGBUS) | signal_bit(SIGFPE) | signal_bit(SIGILL) |
      signal_bit(SIGABRT) | signal_bit(SIGTRAP) | signal_bit(SIGSYS));

struct SignalBlock {
  // Blocks what may be blocked; returns what was blocked before.
  static std::uint64_t begin() {
    std::uint64_t before = 0;
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &signals_put_off, &before, sizeof(before));
    return before;
  }
  static void end(std::uint64_t before) {
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, nullptr, sizeof(before));
  }
};

// The heap's lock, for the program's threads. The agent's has all signals blocked and takes the plain
// LockGuard.
class TERRACE_TSA(scoped_lockable) QuietLockGuard {
 public:
  QuietLockGuard(Lock& lock, bool may_page) TERRACE_TSA(acquire_capability(lock))
      : lock_(lock), blocks_(may_page), before_(may_page ? SignalBlock::begin() : 0) {
    lock_.lock();
  }
  ~QuietLockGuard() TERRACE_TSA(release_capability()) {
    lock_.unlock();
    if (blocks_) SignalBlock::end(before_);
  }
  QuietLockGuard(const QuietLockGuard&) = delete;
  QuietLockGuard& operator=(const QuietLockGuard&) = delete;

 private:
  Lock& lock_;
  bool blocks_;
  std::uint64_t before_;
};

}  // namespace terrace::liballoc
