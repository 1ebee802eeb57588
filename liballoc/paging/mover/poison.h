// Runs whose bytes are lost: a mapping of an empty file, which raises SIGBUS when it is touched.
#pragma once

#include <cerrno>
#include <cstddef>

#include "liballoc/base/os.h"
#include "liballoc/base/own_descriptors.h"
#include "liballoc/heap/space/address_space.h"

namespace terrace::liballoc {

class Poison {
 public:
  void open() {
    fd_ = keep_descriptor(static_cast<int>(syscall(SYS_memfd_create, "terrace-lost", 1U /* MFD_CLOEXEC */)));
  }
  void close() {
    close_kept(fd_);
    fd_ = -1;
  }
  // 0 or errno.
  int put_on(std::byte* run) const {
    return os::map_file_private(run_bytes, fd_, run) == nullptr ? errno : 0;
  }
  // Makes a poisoned run empty memory again, which nobody watches yet.
  static int take_off(std::byte* run) {
    if (os::map_anonymous(run_bytes, PROT_READ | PROT_WRITE, run) == nullptr) return errno;
    os::unlock(run, run_bytes);
    os::advise(run, run_bytes, MADV_DONTFORK);
    return 0;
  }

 private:
  int fd_ = -1;
};

}  // namespace terrace::liballoc
