// The userfaultfd: the one place that speaks to it. Touches of missing pages of a watched range come here as
// faults; pages are put, moved and zeroed, and who waits for them is woken.
//
// All functions return 0 or an errno value. Only who holds the gate calls this.
#pragma once

#include <cstddef>
#include <cstdint>

namespace terrace::liballoc {

struct Fault {
  std::byte* address;  // exact since Linux 5.18, before that of its page
  bool write_protected;
  std::uint32_t thread = 0;  // whose touch it was
};

class Userfault {
 public:
  // One that also serves the kernel's own accesses, through `device_fd` (an open /dev/userfaultfd, or -1),
  // the device itself, or the system call. EPERM: only user-mode faults would be served, and read(2) into an
  // evicted page would fail.
  int open(int device_fd);
  void close();
  int fd() const { return fd_; }
  // Whether the kernel has UFFDIO_MOVE (Linux 6.8).
  bool can_move() const { return can_move_; }

  int watch(std::byte* address, std::size_t bytes);
  int unwatch(std::byte* address, std::size_t bytes);
  // Next fault, false when none is waiting.
  bool next(Fault* fault);
  void wake(std::byte* address, std::size_t bytes);

  // Moves pages that are ours alone: the kernel refuses others with EBUSY. *moved bytes have moved in either
  // case. ENOENT: a page is missing, and `allow_holes` is false.
  int move(std::byte* from, std::byte* to, std::size_t bytes, bool allow_holes, std::size_t* moved);
  // The same across mappings that the program has cut.
  int move_in_pieces(std::byte* from, std::byte* to, std::size_t bytes, std::size_t* moved);
  // Copies offsets [*done, end) to pages that are not there and wakes who waits for them. Pages that are
  // there stay. *done is how far it came in either case.
  int copy(const std::byte* from, std::byte* to, std::size_t* done, std::size_t end);
  // The same of a run, of which everybody is woken when it has come, or came as far as it does for now.
  int copy_run(const std::byte* frame, std::byte* run, std::size_t* done, std::size_t end);
  // The kernel's zeroes where no page is, as if it were touched for the first time; who waits is woken.
  int zero(std::byte* address, std::size_t bytes);
  // The same without waking anybody.
  int fill_holes(std::byte* address, std::size_t bytes);

 private:
  int open_descriptor(int device_fd);
  bool moved_unreported(std::byte* from, std::byte* to);

  int fd_ = -1;
  bool can_move_ = false;
};

}  // namespace terrace::liballoc
