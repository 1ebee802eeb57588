// The mover, and the permission to have one: a userfaultfd that also serves the kernel's own accesses needs
// /dev/userfaultfd, which the daemon hands over where the program may not open it.
#pragma once

#include "liballoc/agent/client/client.h"
#include "liballoc/base/availability.h"
#include "liballoc/base/options.h"
#include "liballoc/paging/mover/mover.h"

namespace terrace::liballoc {

class MoverAccess {
 public:
  constexpr MoverAccess(const Options& options, Availability& availability)
      : options_(options), availability_(availability) {}

  // False: there is no usable userfaultfd, and it was said why.
  bool open(const Grant& grant);
  // In a forked child, by the parent's permission. 0 or errno.
  int open_in_child() { return mover_.open(options_.mover, device_fd_); }

  constexpr Mover& mover() { return mover_; }
  const Mover& mover() const { return mover_; }

 private:
  const Options& options_;
  Availability& availability_;
  Mover mover_;
  int device_fd_ = -1;  // /dev/userfaultfd, from the daemon
};

}  // namespace terrace::liballoc
