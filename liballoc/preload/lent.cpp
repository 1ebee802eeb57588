// libterrace_preload.so: the calls after which the kernel still refers to the program's pages although it has
// returned.
//
//   vmsplice              the pages are in a pipe until somebody has read it
//   send with             the pages are in the socket's queue until the data has been sent and acknowledged,
//   MSG_ZEROCOPY          which the socket's error queue tells the program
//
// These are plain references, not pins: no way of moving pages refuses them, neither UFFDIO_MOVE nor mremap.
// A run that left DRAM would give its frame to other data, and the pipe or the peer would read that. So the
// runs of such a range are held before the call, for good: a pipe does not say when it has been read, and
// what the error queue says is the program's. They go with their block, whose memory the kernel then gets
// back, as it would from a free without this library.
//
// A hold that the budget has no room for is refused as the kernel refuses what it may not lock: ENOBUFS from
// send (Documentation/networking/msg_zerocopy.rst: the program sends without the flag then), ENOMEM from
// vmsplice. What is passed on costs one test. Calls that do not come through libc's functions (io_uring's
// IORING_OP_SEND_ZC, syscall(2)) are not seen: docs/decisions/004.
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "liballoc/base/os.h"
#include "liballoc/heap/heap.h"
#include "liballoc/terrace.h"

using terrace::liballoc::heap;

namespace {

// Until the library is initialised the system calls serve.
struct NextTransfers {
  ssize_t (*vmsplice)(int, const iovec*, std::size_t, unsigned);
  ssize_t (*send)(int, const void*, std::size_t, int);
  ssize_t (*sendto)(int, const void*, std::size_t, int, const sockaddr*, socklen_t);
  ssize_t (*sendmsg)(int, const msghdr*, int);
  int (*sendmmsg)(int, mmsghdr*, unsigned, int);
};

constinit NextTransfers next_transfers{
    .vmsplice = [](int fd, const iovec* parts, std::size_t count, unsigned flags) -> ssize_t {
      return syscall(SYS_vmsplice, fd, parts, count, flags);
    },
    .send = [](int fd, const void* data, std::size_t bytes, int flags) -> ssize_t {
      return syscall(SYS_sendto, fd, data, bytes, flags, nullptr, 0);
    },
    .sendto = [](int fd, const void* data, std::size_t bytes, int flags, const sockaddr* to,
                 socklen_t to_bytes) -> ssize_t {
      return syscall(SYS_sendto, fd, data, bytes, flags, to, to_bytes);
    },
    .sendmsg = [](int fd, const msghdr* message, int flags) -> ssize_t {
      return syscall(SYS_sendmsg, fd, message, flags);
    },
    .sendmmsg = [](int fd, mmsghdr* messages, unsigned count, int flags) -> int {
      return static_cast<int>(syscall(SYS_sendmmsg, fd, messages, count, flags));
    },
};

template <typename Function>
void look_up_transfer(const char* name, Function* function) {
  if (void* symbol = dlsym(RTLD_NEXT, name); symbol != nullptr)
    std::memcpy(function, &symbol, sizeof(symbol));
}

[[gnu::constructor]] void find_next_transfers() {
  look_up_transfer("vmsplice", &next_transfers.vmsplice);
  look_up_transfer("send", &next_transfers.send);
  look_up_transfer("sendto", &next_transfers.sendto);
  look_up_transfer("sendmsg", &next_transfers.sendmsg);
  look_up_transfer("sendmmsg", &next_transfers.sendmmsg);
}

// Holds the runs of the range until their block is freed. False: the budget has no room for that.
bool lend(const void* address, std::size_t bytes) {
  if (bytes == 0 || !heap().owns_block(address)) return true;
  return heap().pins().lend(address, bytes) != ENOMEM;
}

// What is more than the kernel takes it refuses as a whole: nothing of it is looked at.
bool lend_all(const iovec* parts, std::size_t count) {
  if (count > IOV_MAX) return true;
  return std::all_of(parts, parts + count,
                     [](const iovec& part) { return lend(part.iov_base, part.iov_len); });
}

bool lend_message(const msghdr& message) { return lend_all(message.msg_iov, message.msg_iovlen); }

bool is_lending(int flags) { return (flags & MSG_ZEROCOPY) != 0; }

int refused(int error) {
  errno = error;
  return -1;
}

// From the reading end vmsplice copies, like readv: nothing stays behind.
bool is_reading_end(int fd) {
  const int saved = errno;
  const int flags = fcntl(fd, F_GETFL);
  errno = saved;
  return flags == -1 || (flags & O_ACCMODE) == O_RDONLY;
}

}  // namespace

extern "C" {

TERRACE_API ssize_t vmsplice(int fd, const iovec* parts, std::size_t count, unsigned flags) {
  if (!is_reading_end(fd) && !lend_all(parts, count)) return refused(ENOMEM);
  return next_transfers.vmsplice(fd, parts, count, flags);
}

TERRACE_API ssize_t send(int fd, const void* data, std::size_t bytes, int flags) {
  if (is_lending(flags) && !lend(data, bytes)) [[unlikely]] {
    return refused(ENOBUFS);
  }
  return next_transfers.send(fd, data, bytes, flags);
}

TERRACE_API ssize_t sendto(int fd, const void* data, std::size_t bytes, int flags, const sockaddr* to,
                           socklen_t to_bytes) {
  if (is_lending(flags) && !lend(data, bytes)) [[unlikely]] {
    return refused(ENOBUFS);
  }
  return next_transfers.sendto(fd, data, bytes, flags, to, to_bytes);
}

TERRACE_API ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  if (is_lending(flags) && !lend_message(*message)) [[unlikely]] {
    return refused(ENOBUFS);
  }
  return next_transfers.sendmsg(fd, message, flags);
}

// The kernel takes no more than UIO_MAXIOV messages (IOV_MAX) at once. If not all can be held, those before
// the first that cannot are sent.
TERRACE_API int sendmmsg(int fd, mmsghdr* messages, unsigned count, int flags) {
  if (!is_lending(flags)) return next_transfers.sendmmsg(fd, messages, count, flags);
  const unsigned wanted = std::min<unsigned>(count, IOV_MAX);
  unsigned held = 0;
  while (held < wanted && lend_message(messages[held].msg_hdr)) ++held;
  if (held == 0 && wanted > 0) return refused(ENOBUFS);
  return next_transfers.sendmmsg(fd, messages, held, flags);
}

}  // extern "C"
