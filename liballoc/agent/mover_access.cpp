#include "liballoc/agent/mover_access.h"

#include "liballoc/base/os.h"
#include "liballoc/base/own_descriptors.h"

namespace terrace::liballoc {

bool MoverAccess::open(const Grant& grant) {
  // Kept for forked children, whose client forgets the daemon's descriptors.
  if (grant.uffd_device_fd >= 0) {
    device_fd_ =
        keep_descriptor(static_cast<int>(syscall(SYS_fcntl, grant.uffd_device_fd, F_DUPFD_CLOEXEC, 3)));
  }
  const int error = mover_.open(options_.mover, device_fd_);
  if (error == 0) return true;
  if (error == EPERM || error == EACCES) {
    availability_.give_up(
        "userfaultfd is not permitted (allow /dev/userfaultfd to this user's group, or run terraced)");
  } else if (error == ENOTSUP) {
    availability_.give_up("this kernel cannot move pages in the way TERRACE_MOVER asks for");
  } else {
    availability_.give_up("this kernel has no usable userfaultfd");
  }
  return false;
}

}  // namespace terrace::liballoc
