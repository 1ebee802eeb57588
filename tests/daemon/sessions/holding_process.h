// A process that holds so much memory until it is told to give it up or to end: what the kernel counts of it
// is real.
#pragma once

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdint>

#include "daemon/base/unique_fd.h"

namespace terrace::tests {

class HoldingProcess {
 public:
  explicit HoldingProcess(std::uint64_t bytes) {
    int orders[2], answers[2];
    REQUIRE(::pipe(orders) == 0);
    REQUIRE(::pipe(answers) == 0);
    pid_ = ::fork();
    if (pid_ == 0) hold(bytes, orders[0], answers[1]);
    fd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0U)));
    const daemon::UniqueFd theirs(orders[0]), theirs_too(answers[1]);
    orders_.reset(orders[1]);
    answers_.reset(answers[0]);
    await();
  }
  ~HoldingProcess() { end(); }
  HoldingProcess(const HoldingProcess&) = delete;

  pid_t pid() const { return pid_; }
  int fd() const { return fd_.get(); }
  void give() {
    const char order = 'g';
    REQUIRE(::write(orders_.get(), &order, 1) == 1);
    await();
  }
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  [[noreturn]] static void hold(std::uint64_t bytes, int orders, int answers) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    void* memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) ::_exit(1);
    char byte = 'h';
    while (::write(answers, &byte, 1) == 1 && ::read(orders, &byte, 1) == 1) ::munmap(memory, bytes);
    ::_exit(0);
  }
  void await() const {
    char answer = 0;
    REQUIRE(::read(answers_.get(), &answer, 1) == 1);
  }

  pid_t pid_ = -1;
  daemon::UniqueFd fd_, orders_, answers_;
};

}  // namespace terrace::tests
