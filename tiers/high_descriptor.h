// Where descriptors that the program must not stumble over are kept: in high numbers. Programs expect the
// next free number to be a small one and theirs, and close the small ones by hand.
//
// Near the soft limit on descriptors and never over 4096: the kernel's table is as long as the highest
// number, and fork copies it.
#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace terrace::tiers {

inline int lowest_high_number() noexcept {
  constexpr rlim_t most = 4096;
  constexpr rlim_t room = 320;  // a pipe for each of 256 forked children, and the rest
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const rlim_t end = std::min(limit.rlim_cur, most);
  return static_cast<int>(end > 2 * room ? end - room : end / 2);
}

// By system call, since close() may be the program's or our own wrapper of it. ThreadSanitizer follows
// descriptors by their numbers, and has to see that one is free.
inline void close_by_system_call(int fd) noexcept {
#ifdef __SANITIZE_THREAD__
  ::close(fd);
#else
  ::syscall(SYS_close, fd);
#endif
}

// The new number; the old one where no high number is free. The old one is then closed.
inline int move_to_high_number(int fd) noexcept {
  if (fd < 0) return fd;
  const int high = ::fcntl(fd, F_DUPFD_CLOEXEC, lowest_high_number());
  if (high < 0) return fd;
  close_by_system_call(fd);
  return high;
}

}  // namespace terrace::tiers
