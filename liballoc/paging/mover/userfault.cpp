#include "liballoc/paging/mover/userfault.h"

#include <linux/userfaultfd.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cstring>

#include "liballoc/base/os.h"
#include "liballoc/base/own_descriptors.h"
#include "liballoc/heap/space/block.h"
#include "liballoc/paging/mover/page_map.h"

// Newer than Debian 12's kernel headers; from include/uapi/linux/userfaultfd.h of Linux 6.8.
#ifndef UFFDIO_MOVE
struct uffdio_move {
  __u64 dst;
  __u64 src;
  __u64 len;
  __u64 mode;
  __s64 move;
};
#define UFFDIO_MOVE _IOWR(UFFDIO, 0x05, struct uffdio_move)
#define UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES (1ULL << 1)
#define UFFD_FEATURE_MOVE (1ULL << 16)
#endif
#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)
#endif

namespace terrace::liballoc {
namespace {

constexpr int most_retries = 64;  // EAGAIN means another thread of this process is changing its mappings

std::uint64_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

int control(int fd, unsigned long request, void* argument) {
  return os::error_of(syscall(SYS_ioctl, fd, request, argument));
}

// What MOVE and COPY answer for a range that is not in one mapping. A call of the program's on a part of a
// run (madvise, mbind) cuts its mapping in two, and no request of ours may cross the cut. What is refused as
// a whole goes on in halves: each page lies in one mapping.
bool may_cross_a_cut(int error) { return error == EINVAL || error == ENOENT; }

std::size_t half_of(std::size_t piece) {
  return std::max(piece / 2 / os::page_bytes, std::size_t{1}) * os::page_bytes;
}

}  // namespace

// ---- the descriptor ---------------------------------------------------------------------------------------

int Userfault::open_descriptor(int device_fd) {
  constexpr int flags = O_CLOEXEC | O_NONBLOCK;
  if (device_fd >= 0) {
    fd_ = static_cast<int>(syscall(SYS_ioctl, device_fd, USERFAULTFD_IOC_NEW, flags));
    if (fd_ >= 0) return 0;
  }
  const int own = static_cast<int>(syscall(SYS_openat, AT_FDCWD, "/dev/userfaultfd", O_RDWR | O_CLOEXEC));
  if (own >= 0) {
    fd_ = static_cast<int>(syscall(SYS_ioctl, own, USERFAULTFD_IOC_NEW, flags));
    os::close_fd(own);
    if (fd_ >= 0) return 0;
  }
  fd_ = static_cast<int>(syscall(SYS_userfaultfd, flags));
  return fd_ >= 0 ? 0 : errno;
}

int Userfault::open(int device_fd) {
  if (const int error = open_descriptor(device_fd); error != 0) return error;
  fd_ = keep_descriptor(fd_);
  // A descriptor takes one UFFDIO_API call that succeeds; its answer says what this kernel offers. MOVE needs
  // no enabling, write protection does not either.
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = UFFD_FEATURE_EXACT_ADDRESS | UFFD_FEATURE_THREAD_ID;
  int error = control(fd_, UFFDIO_API, &api);
  if (error == EINVAL) {  // before Linux 5.18: a fault tells its page only
    api = {};
    api.api = UFFD_API;
    api.features = UFFD_FEATURE_THREAD_ID;
    error = control(fd_, UFFDIO_API, &api);
  }
  can_move_ = (api.features & UFFD_FEATURE_MOVE) != 0;
  if (error != 0) close();
  return error;
}

void Userfault::close() {
  close_kept(fd_);
  fd_ = -1;
  can_move_ = false;
}

int Userfault::watch(std::byte* address, std::size_t bytes) {
  uffdio_register range{};
  range.range = {number(address), bytes};
  range.mode = UFFDIO_REGISTER_MODE_MISSING;
  return control(fd_, UFFDIO_REGISTER, &range);
}

int Userfault::unwatch(std::byte* address, std::size_t bytes) {
  uffdio_range range{number(address), bytes};
  return control(fd_, UFFDIO_UNREGISTER, &range);
}

// No other event is asked for. What brings one is no userfaultfd any more: the program has closed it by a
// bare system call and has opened something else in its place, and whoever reads on may never end
// (/dev/zero).
bool Userfault::next(Fault* fault) {
  uffd_msg message;
  const long got = syscall(SYS_read, fd_, &message, sizeof(message));
  if (got != sizeof(message) || message.event != UFFD_EVENT_PAGEFAULT) return false;
  fault->address =
      reinterpret_cast<std::byte*>(message.arg.pagefault.address);  // NOLINT: the kernel's number
  fault->write_protected = (message.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WP) != 0;
  fault->thread = message.arg.pagefault.feat.ptid;
  return true;
}

void Userfault::wake(std::byte* address, std::size_t bytes) {
  uffdio_range range{number(address) & ~(os::page_bytes - 1), bytes};
  control(fd_, UFFDIO_WAKE, &range);
}

// ---- pages ------------------------------------------------------------------------------------------------

int Userfault::move(std::byte* from, std::byte* to, std::size_t bytes, bool allow_holes, std::size_t* moved) {
  *moved = 0;
  for (int attempt = 0; attempt < most_retries;) {
    uffdio_move request{};
    request.dst = number(to) + *moved;
    request.src = number(from) + *moved;
    request.len = bytes - *moved;
    request.mode = allow_holes ? UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES : 0;
    const int error = control(fd_, UFFDIO_MOVE, &request);
    if (error == 0) {
      *moved = bytes;
      return 0;
    }
    if (request.move > 0) *moved += static_cast<std::size_t>(request.move);
    if (error == EEXIST && moved_unreported(from + *moved, to + *moved)) {
      *moved += os::page_bytes;
      if (*moved == bytes) return 0;
      continue;
    }
    if (error != EAGAIN) return error;
    if (request.move <= 0) ++attempt;
  }
  return EAGAIN;
}

// Linux 6.18 at least: where a write of the program breaks a page's sharing with a child in the same moment,
// MOVE moves the page, tries it once more, finds it at the destination, and reports that as EEXIST and the
// page as not moved. Nobody else puts pages where we move to, so a source that is gone tells this case.
// Whoever waits for the page was not woken.
bool Userfault::moved_unreported(std::byte* from, std::byte* to) {
  if (PageMap::has_page(from) || !PageMap::has_page(to)) return false;
  wake(to, os::page_bytes);
  return true;
}

int Userfault::move_in_pieces(std::byte* from, std::byte* to, std::size_t bytes, std::size_t* moved) {
  *moved = 0;
  for (std::size_t piece = bytes; *moved < bytes;) {
    piece = std::min(piece, bytes - *moved);
    std::size_t more = 0;
    const int error = move(from + *moved, to + *moved, piece, false, &more);
    *moved += more;
    if (error != 0 && (!may_cross_a_cut(error) || piece == os::page_bytes)) return error;
    piece = error == 0 ? 2 * piece : half_of(piece);
  }
  return 0;
}

int Userfault::copy(const std::byte* from, std::byte* to, std::size_t* done, std::size_t end) {
  std::size_t piece = end;
  for (int attempt = 0; *done < end && attempt < most_retries;) {
    piece = std::min(piece, end - *done);
    uffdio_copy request{};
    request.dst = number(to) + *done;
    request.src = number(from) + *done;
    request.len = piece;
    const int error = control(fd_, UFFDIO_COPY, &request);
    if (request.copy > 0) *done += static_cast<std::size_t>(request.copy);
    if (error == 0) {
      piece *= 2;
    } else if (error == EEXIST) {
      wake(to + *done, os::page_bytes);
      *done += os::page_bytes;
    } else if (may_cross_a_cut(error) && piece > os::page_bytes) {
      piece = half_of(piece);
    } else if (error != EAGAIN) {
      return error;
    } else if (request.copy <= 0) {
      ++attempt;
    }
  }
  return *done >= end ? 0 : EAGAIN;
}

int Userfault::copy_run(const std::byte* frame, std::byte* run, std::size_t* done, std::size_t end) {
  const int error = copy(frame, run, done, end);
  if (error == 0 || error == EAGAIN) wake(run, run_bytes);
  return error;
}

int Userfault::zero(std::byte* address, std::size_t bytes) {
  int error = 0;
  std::size_t done = 0;
  for (int attempt = 0; done < bytes && attempt < most_retries;) {
    uffdio_zeropage request{};
    request.range = {number(address) + done, bytes - done};
    error = control(fd_, UFFDIO_ZEROPAGE, &request);
    if (request.zeropage > 0) done += static_cast<std::size_t>(request.zeropage);
    if (error == 0) break;
    if (error == EEXIST) {
      wake(address + done, os::page_bytes);
      done += os::page_bytes;
    } else if (error != EAGAIN) {
      break;
    } else {
      ++attempt;
    }
  }
  if (error != 0) wake(address, bytes);
  return error == EEXIST ? 0 : error;
}

int Userfault::fill_holes(std::byte* address, std::size_t bytes) {
  for (std::size_t offset = 0; offset < bytes;) {
    uffdio_zeropage request{};
    request.range = {number(address) + offset, bytes - offset};
    request.mode = UFFDIO_ZEROPAGE_MODE_DONTWAKE;
    const int error = control(fd_, UFFDIO_ZEROPAGE, &request);
    if (error == 0) break;
    if (request.zeropage > 0) offset += static_cast<std::size_t>(request.zeropage);
    if (error == EEXIST) offset += os::page_bytes;
    if (error != EEXIST && error != EAGAIN) return error;
  }
  return 0;
}

}  // namespace terrace::liballoc
