#include "liballoc/agent/waiting/waker.h"

#include <cstdlib>

#include "liballoc/base/message.h"
#include "liballoc/base/os.h"
#include "liballoc/base/own_descriptors.h"
#include "liballoc/paging/pager.h"

namespace terrace::liballoc {
namespace {

constexpr std::uint64_t check_ns = 100'000'000;
constexpr std::uint64_t look_ns = 100'000;  // a touch of a page takes as long

}  // namespace

bool Waker::open() {
  int ends[2];
  if (syscall(SYS_pipe2, ends, O_CLOEXEC | O_NONBLOCK) != 0) return false;
  read_fd_ = keep_descriptor(ends[0]);
  write_fd_ = keep_descriptor(ends[1]);
  process_ = syscall(SYS_getpid);
  return true;
}

void Waker::close() {
  close_kept(read_fd_);
  close_kept(write_fd_);
  read_fd_ = write_fd_ = -1;
}

void Waker::reset_in_child() {
  asleep_.store(0);
  close();
}

void Waker::kick() {
  kicked_.store(1);
  if (asleep_.exchange(0) == 0) return;
  if (!is_intact(write_fd_)) return descriptor_lost(write_fd_);
  const char one = 1;
  const long written = syscall(SYS_write, write_fd_, &one, sizeof(one));
  static_cast<void>(written);  // EAGAIN: the agent is awake already
}

bool Waker::begin_rest() {
  asleep_.store(1);
  return kicked_.exchange(0) != 0;
}

void Waker::drain() {
  if (!is_intact(read_fd_)) return;
  char kicks[64];
  const long got = syscall(SYS_read, read_fd_, kicks, sizeof(kicks));
  static_cast<void>(got);
}

// What the program closed by a bare system call.
void Waker::check_descriptors(int userfault_fd) {
  const std::uint64_t now = os::now_ns();
  if (now < next_look_ns_) return;
  next_look_ns_ = now + look_ns;
  if (userfault_fd >= 0 && !is_intact(userfault_fd)) descriptor_lost(userfault_fd);
  if (now < next_check_ns_) return;
  next_check_ns_ = now + check_ns;
  if (const int fd = first_lost_descriptor(); fd >= 0) descriptor_lost(fd);
}

// Without a pager nothing is lost. A child that shares our memory (vfork) has a table of its own, which it
// may empty.
void Waker::descriptor_lost(int fd) {
  if (syscall(SYS_getpid) != process_) return;
  if (!pager_.is_paging()) return close();
  Message(Severity::error) << "descriptor " << static_cast<std::uint64_t>(fd)
                           << ", through which Terrace serves memory outside DRAM, was closed by a bare "
                              "system call: ending the program before it reads wrong data (close(), "
                              "close_range() and closefrom() leave this descriptor open)";
  std::abort();
}

}  // namespace terrace::liballoc
