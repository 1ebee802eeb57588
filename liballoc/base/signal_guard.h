// Signals wait while a thread of the program is inside the gate (paging/gate.h), or forks.
//
// A handler may touch any memory. If that is evicted it waits for the agent, and the agent waits for the gate
// that the interrupted thread holds. So signals wait, but those that a thread raises itself, which must not
// be put off. libc's own (cancellation, setuid for all threads) are blocked too, hence the system call and
// not pthread_sigmask. malloc and free block nothing: the agent needs none of what they hold.
//
// Without a pager nothing is evicted and nobody waits: Options::may_page() tells, and does not change once
// the heap is up.
#pragma once

#include <signal.h>

#include <cstdint>

#include "liballoc/base/os.h"

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

}  // namespace terrace::liballoc
