// How the agent sleeps and is woken: a pipe, written to only while the agent sleeps.
//
// A pipe, because unlike an eventfd it has an inode of its own (own_descriptors.h), which tells whether the
// program has closed it and uses its number. What such a loss means is told here, for the pipe and for every
// other descriptor of the library: while the pager is at work, memory is reached through them, and the
// program ends before it reads wrong data.
#pragma once

#include <atomic>
#include <cstdint>

namespace terrace::liballoc {

class Pager;

class Waker {
 public:
  constexpr explicit Waker(const Pager& pager) : pager_(pager) {}

  // By who starts the thread. False: no pipe is to be had.
  bool open();
  void close();
  // In a forked child: nobody sleeps, and the pipe is the parent's.
  void reset_in_child();

  // Wakes the agent if it sleeps, or keeps it from falling asleep. Any thread; async-signal-safe.
  void kick();

  // ---- the agent
  // From here on a kick writes to the pipe. True: there was one since the last rest, so do not sleep.
  bool begin_rest();
  void end_rest() { asleep_.store(0); }
  // Poll it for reading; then drain() it.
  int fd() const { return read_fd_; }
  void drain();
  // Looks now and then whether the library's descriptors are still there; up to ten times in a millisecond at
  // the one that faults come through, since without a userfaultfd an evicted page reads as zeroes.
  void check_descriptors(int userfault_fd);

 private:
  void descriptor_lost(int fd);

  const Pager& pager_;
  std::atomic<std::uint32_t> asleep_{0};
  std::atomic<std::uint32_t> kicked_{0};  // since the last round began: the agent does not sleep
  int read_fd_ = -1;                      // set before the thread starts; any thread reads it
  int write_fd_ = -1;
  long process_ = 0;                 // that opened the pipe
  std::uint64_t next_check_ns_ = 0;  // the agent's
  std::uint64_t next_look_ns_ = 0;   // the same
};

}  // namespace terrace::liballoc
