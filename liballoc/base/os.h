// The operating system behind one thin layer: memory mapping, futexes, clocks, descriptors.
//
// Everything goes through raw system calls. The preload library interposes madvise, munmap, mremap, mlock and
// mprotect for the program's sake; the library itself must reach the kernel and not its own wrappers, and the
// agent thread must not enter libc code that could take a lock. Failures come back as errno values.
#pragma once

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace terrace::os {

inline constexpr std::size_t page_bytes = 4096;

// Populates page tables for a range without touching it (Linux 5.14).
inline constexpr int advice_populate_write = 23;

inline int error_of(long result) { return result < 0 ? errno : 0; }

// nullptr on failure. Private anonymous memory that costs nothing until touched.
inline void* map_anonymous(std::size_t bytes, int protection, void* at = nullptr) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at != nullptr ? MAP_FIXED : 0);
  const long result = syscall(SYS_mmap, at, bytes, protection, flags, -1, 0L);
  return result == -1 ? nullptr : reinterpret_cast<void*>(result);
}
inline void* map_file_private(std::size_t bytes, int fd, void* at) {
  const long result = syscall(SYS_mmap, at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd, 0L);
  return result == -1 ? nullptr : reinterpret_cast<void*>(result);
}
// Writable, of a file that is as long.
inline void* map_file_shared(std::size_t bytes, int fd) {
  const long result = syscall(SYS_mmap, nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0L);
  return result == -1 ? nullptr : reinterpret_cast<void*>(result);
}
inline int unmap(void* address, std::size_t bytes) { return error_of(syscall(SYS_munmap, address, bytes)); }
inline int advise(void* address, std::size_t bytes, int advice) {
  return error_of(syscall(SYS_madvise, address, bytes, advice));
}
inline int unlock(void* address, std::size_t bytes) { return error_of(syscall(SYS_munlock, address, bytes)); }
inline int protect(void* address, std::size_t bytes, int protection) {
  return error_of(syscall(SYS_mprotect, address, bytes, protection));
}
// Moves the page tables of [from, from + bytes) to `to`, leaving both ranges mapped.
inline int remap_keeping(void* from, std::size_t bytes, void* to) {
  constexpr int flags = MREMAP_MAYMOVE | MREMAP_FIXED | 4 /* MREMAP_DONTUNMAP */;
  return error_of(syscall(SYS_mremap, from, bytes, bytes, flags, to));
}
// The smaller of the limits on addresses and on writable memory (ulimit -v, ulimit -d); UINT64_MAX: neither.
inline std::uint64_t mapping_limit() {
  std::uint64_t least = UINT64_MAX;
  for (const int resource : {RLIMIT_AS, RLIMIT_DATA}) {
    std::uint64_t limit[2] = {UINT64_MAX, UINT64_MAX};  // struct rlimit64
    syscall(SYS_prlimit64, 0, resource, nullptr, limit);
    if (limit[0] < least) least = limit[0];
  }
  return least;
}
inline int close_fd(int fd) { return error_of(syscall(SYS_close, fd)); }

inline void futex_wait(const std::uint32_t* word, std::uint32_t expected) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}
inline void futex_wait_for(const std::uint32_t* word, std::uint32_t expected, std::uint64_t ns) {
  const timespec limit{static_cast<time_t>(ns / 1000000000), static_cast<long>(ns % 1000000000)};
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, &limit, nullptr, 0);
}
inline void futex_wake(const std::uint32_t* word, int count) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

inline std::uint64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);  // vDSO: no lock, no allocation
  return static_cast<std::uint64_t>(t.tv_sec) * 1000000000ULL + static_cast<std::uint64_t>(t.tv_nsec);
}

// The processor's time that the calling thread has taken: what others take meanwhile does not count. A system
// call of some 300 ns.
inline std::uint64_t thread_ns() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1000000000ULL + static_cast<std::uint64_t>(t.tv_nsec);
}

// The processor's time in a program's code, without the kernel's: of RUSAGE_SELF or RUSAGE_THREAD.
inline std::uint64_t user_ns(int whose) {
  rusage usage{};
  syscall(SYS_getrusage, whose, &usage);
  return static_cast<std::uint64_t>(usage.ru_utime.tv_sec) * 1000000000ULL +
         static_cast<std::uint64_t>(usage.ru_utime.tv_usec) * 1000ULL;
}

}  // namespace terrace::os
