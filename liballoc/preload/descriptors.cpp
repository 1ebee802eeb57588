// libterrace_preload.so: the calls by which a program closes descriptors. It closes its own; the library's
// (own_descriptors.h) are to it as if they were not there:
//
//   close of one of ours           EBADF
//   close_range, closefrom         pass ours by
//   dup2, dup3 onto one of ours    EBADF: as above the limit on descriptors. Ours cannot make room: the agent
//   may be
//                                  in a system call with the number, and a child of vfork must not write.
//
// Children that share the parent's memory until exec (vfork, posix_spawn) have a table of descriptors of
// their own; what is left open there goes at exec, as everything of ours is close-on-exec. What closes
// descriptors inside libc (posix_spawn's file actions) does not come through here and only closes the
// child's.
//
// close() may be called in signal handlers and often: one compare for the numbers below ours. The next
// function is looked up when the library is loaded; before that the system call serves.
#include <dlfcn.h>
#include <linux/close_range.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "liballoc/base/os.h"
#include "liballoc/base/own_descriptors.h"
#include "liballoc/terrace.h"

using terrace::liballoc::is_kept;
using terrace::liballoc::next_kept;

namespace {

struct NextCalls {
  int (*close)(int);
  int (*close_range)(unsigned, unsigned, int);
  void (*closefrom)(int);
  int (*dup2)(int, int);
  int (*dup3)(int, int, int);
};

constinit NextCalls next_calls{
    .close = [](int fd) { return static_cast<int>(syscall(SYS_close, fd)); },
    .close_range = [](unsigned first, unsigned last,
                      int flags) { return static_cast<int>(syscall(SYS_close_range, first, last, flags)); },
    .closefrom = [](int first) { syscall(SYS_close_range, first, ~0U, 0); },
    .dup2 = [](int from, int to) { return static_cast<int>(syscall(SYS_dup2, from, to)); },
    .dup3 = [](int from, int to, int flags) { return static_cast<int>(syscall(SYS_dup3, from, to, flags)); },
};

template <typename Function>
void look_up_next(const char* name, Function* function) {
  if (void* symbol = dlsym(RTLD_NEXT, name); symbol != nullptr)
    std::memcpy(function, &symbol, sizeof(symbol));
}

[[gnu::constructor]] void find_next_calls() {
  look_up_next("close", &next_calls.close);
  look_up_next("close_range", &next_calls.close_range);
  look_up_next("closefrom", &next_calls.closefrom);
  look_up_next("dup2", &next_calls.dup2);
  look_up_next("dup3", &next_calls.dup3);
}

int bad_descriptor() {
  errno = EBADF;
  return -1;
}

// Before Linux 5.9 there is no close_range: number by number.
void close_all(int first, int last) {
  const int saved = errno;
  if (syscall(SYS_close_range, first, last, 0) != 0)
    for (int fd = first; fd <= last; ++fd) syscall(SYS_close, fd);
  errno = saved;
}

}  // namespace

extern "C" {

TERRACE_API int close(int fd) {
  if (is_kept(fd)) [[unlikely]] {
    return bad_descriptor();
  }
  return next_calls.close(fd);
}

// With CLOSE_RANGE_CLOEXEC nothing is closed, and ours are close-on-exec already.
TERRACE_API int close_range(unsigned first, unsigned last, int flags) noexcept {
  unsigned at = first;
  while (first <= last && (flags & CLOSE_RANGE_CLOEXEC) == 0 && at <= INT_MAX) {
    const auto kept = static_cast<unsigned>(next_kept(static_cast<int>(at)));
    if (kept == INT_MAX || kept > last) break;
    if (at < kept && next_calls.close_range(at, kept - 1, flags) != 0) return -1;
    if (kept == last) return 0;
    at = kept + 1;
  }
  return next_calls.close_range(at, last, flags);
}

TERRACE_API void closefrom(int first) noexcept {
  int at = std::max(first, 0);
  for (int kept = next_kept(at); kept != INT_MAX; kept = next_kept(at)) {
    if (at < kept) close_all(at, kept - 1);
    at = kept + 1;
  }
  next_calls.closefrom(at);
}

TERRACE_API int dup2(int from, int to) noexcept {
  if (is_kept(to) && from != to) return bad_descriptor();
  return next_calls.dup2(from, to);
}

TERRACE_API int dup3(int from, int to, int flags) noexcept {
  if (is_kept(to)) return bad_descriptor();
  return next_calls.dup3(from, to, flags);
}

}  // extern "C"
