// What the tests of the core share: a reserved range, forked children, random numbers that are the same in
// every run.
//
// Nothing here asserts through Catch2, so that forked children and second threads can use all of it.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iterator>

#include "liballoc/base/os.h"
#include "liballoc/heap/space/address_space.h"

namespace terrace::liballoc::test {

inline constexpr std::size_t kib = 1024;
inline constexpr std::size_t mib = 1024 * kib;

// Run-aligned private memory that costs nothing until touched. `advice`: as mmap gives it, or for huge pages.
class Region {
 public:
  explicit Region(std::size_t bytes, int protection = PROT_READ | PROT_WRITE, int advice = MADV_HUGEPAGE)
      : bytes_(bytes + run_bytes) {
    mapping_ = static_cast<std::byte*>(os::map_anonymous(bytes_, protection));
    if (mapping_ == nullptr) std::abort();
    base_ = mapping_ + (run_bytes - reinterpret_cast<std::uintptr_t>(mapping_) % run_bytes) % run_bytes;
    os::advise(base_, bytes, advice);
  }
  ~Region() { os::unmap(mapping_, bytes_); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  std::byte* base() const { return base_; }

 private:
  std::byte* mapping_ = nullptr;
  std::byte* base_ = nullptr;
  std::size_t bytes_;
};

// splitmix64
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  std::uint64_t below(std::uint64_t limit) { return next() % limit; }

 private:
  std::uint64_t state_;
};

// Bytes that follow from seed and position, so that one out of place shows. Every other run is two thirds
// zeros, for the codecs.
inline std::uint64_t word_of(std::uint64_t seed, std::size_t i) {
  constexpr std::size_t words_per_run = run_bytes / sizeof(std::uint64_t);
  const bool sparse = (seed + i / words_per_run) % 2 == 1;
  return sparse && i % 3 != 0 ? 0 : (seed + 1) * 0x9e3779b97f4a7c15 + i;
}
inline void fill(std::byte* at, std::uint64_t seed, std::size_t bytes = run_bytes) {
  auto* words = reinterpret_cast<std::uint64_t*>(at);
  for (std::size_t i = 0; i < bytes / sizeof(std::uint64_t); ++i) words[i] = word_of(seed, i);
}
inline bool holds(const std::byte* at, std::uint64_t seed, std::size_t bytes = run_bytes) {
  const auto* words = reinterpret_cast<const std::uint64_t*>(at);
  for (std::size_t i = 0; i < bytes / sizeof(std::uint64_t); ++i)
    if (words[i] != word_of(seed, i)) return false;
  return true;
}
inline bool is_zero(const std::byte* at, std::size_t bytes = run_bytes) {
  for (std::size_t i = 0; i < bytes; ++i)
    if (at[i] != std::byte{0}) return false;
  return true;
}

// What a child ended with: its status (0 to 125), or 200 + the signal.
inline int result_of(pid_t child) {
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return 126;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 200 + WTERMSIG(status);
}

// Runs `body` in a forked child that a signal ends after 20 s if it hangs.
inline pid_t start_child(const std::function<int()>& body) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::alarm(20);
  ::_exit(body());
}
inline int in_child(const std::function<int()>& body) { return result_of(start_child(body)); }

// From now on, in this process, the call fails with `error` where that argument is `value`. False: not
// possible here.
inline bool deny_call(unsigned number, unsigned argument, unsigned value, int error) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
               static_cast<unsigned>(offsetof(seccomp_data, args) + argument * sizeof(std::uint64_t))),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{static_cast<unsigned short>(std::size(program)), program};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

inline bool deny_advice(int advice, int error) {
  return deny_call(SYS_madvise, 2, static_cast<unsigned>(advice), error);
}

}  // namespace terrace::liballoc::test
