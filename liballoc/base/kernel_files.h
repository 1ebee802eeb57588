// Small files of the kernel's, in /proc and of cgroups, by raw system calls: whole, and never longer than
// there is room for. kernel_text.h finds numbers in them.
#pragma once

#include "liballoc/base/os.h"

namespace terrace::liballoc {

// -1 with errno: there is none, or it may not be read.
inline int open_kernel_file(int directory, const char* path, int flags = 0) {
  return static_cast<int>(syscall(SYS_openat, directory, path, O_RDONLY | O_CLOEXEC | flags));
}

// From the beginning, with a zero behind it. False: nothing can be read (-1: no file), and then it is empty.
inline bool read_kernel_file(int fd, char* out, std::size_t capacity) {
  const long got = fd < 0 ? -1 : syscall(SYS_pread64, fd, out, capacity - 1, 0L);
  out[got > 0 ? got : 0] = '\0';
  return got > 0;
}

}  // namespace terrace::liballoc
