// The only place that knows liburing: one ring for reads and writes of one file.
//
// Choices, each for the place where this runs (inside someone else's program):
//  * The file is registered with the ring. A program that closes all its descriptors (daemons do) and opens
//    its own file under the same number would otherwise get our pages written into it.
//  * No IORING_SETUP_SINGLE_ISSUER, COOP_TASKRUN or DEFER_TASKRUN: they save an interrupt per request,
//    and need the submitting thread to enter the kernel again before a completion shows. The thread that
//    submits may be the program's, which then computes for seconds.
//  * The mappings are kept out of forked children (MADV_DONTFORK): parent and child would otherwise both
//    move the same ring heads. A child calls abandon_in_child() and then init() for a ring of its own.
//  * liburing is linked statically and calls no libc function that allocates.
// Submit and reap must be serialised by the caller.
#pragma once

#include <liburing.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "tiers/tier.h"

namespace terrace::tiers {

class Uring {
 public:
  struct Request {
    Direction direction = Direction::read;
    void* buffer = nullptr;
    std::uint32_t bytes = 0;
    std::uint64_t offset = 0;  // in the file
    std::uint64_t tag = 0;
  };
  struct Result {
    std::uint64_t tag = 0;
    std::int32_t result = 0;  // bytes moved or -errno
  };

  constexpr Uring() = default;
  ~Uring() { close(); }
  Uring(const Uring&) = delete;
  Uring& operator=(const Uring&) = delete;

  // 0 or errno: ENOSYS (kernel before 5.6, or compiled out), EPERM (sysctl kernel.io_uring_disabled,
  // seccomp), ENOMEM, EMFILE.
  int init(unsigned entries, int file) noexcept;
  // Readable when reap() has something; -1 when there is no ring.
  int fd() const noexcept { return open_ ? ring_.ring_fd : -1; }
  // 0 or errno; after an error the kernel knows nothing of the request. EAGAIN: it has no memory for it now.
  int submit(const Request& request) noexcept;
  // Takes what has completed, without a system call.
  std::size_t reap(std::span<Result> out) noexcept;
  // Blocks until reap() has something. 0 or errno.
  int wait() noexcept;
  // Nothing may be in flight: the kernel goes on writing into buffers that it was given.
  void close() noexcept;
  // In a forked child, where the mappings are not: drops the descriptor and touches nothing else.
  void abandon_in_child() noexcept;

 private:
  int start(int file) noexcept;
  int enter() noexcept;
  void retract() noexcept;

  io_uring ring_{};
  bool open_ = false;
};

}  // namespace terrace::tiers
