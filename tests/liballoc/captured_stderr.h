// Standard error sent into a memory file for one scope, read back as text.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace terrace::liballoc::test {

class CapturedStderr {
 public:
  CapturedStderr() : file_(::memfd_create("stderr", MFD_CLOEXEC)), before_(::dup(STDERR_FILENO)) {
    if (file_ < 0 || before_ < 0 || ::dup2(file_, STDERR_FILENO) < 0) std::abort();
  }
  ~CapturedStderr() {
    restore();
    ::close(file_);
  }
  CapturedStderr(const CapturedStderr&) = delete;
  CapturedStderr& operator=(const CapturedStderr&) = delete;

  // Ends the capture.
  std::string text() {
    restore();
    std::string all;
    char some[512];
    for (ssize_t got = 0; (got = ::pread(file_, some, sizeof some, static_cast<off_t>(all.size()))) > 0;)
      all.append(some, static_cast<std::size_t>(got));
    return all;
  }

 private:
  void restore() {
    if (before_ < 0) return;
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
    before_ = -1;
  }

  int file_;
  int before_;
};

}  // namespace terrace::liballoc::test
