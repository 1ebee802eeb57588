// Holds the first large allocations until it is known whether there is a pager, so that memory under a budget
// is counted from the first byte. Any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "liballoc/base/os.h"

namespace terrace::liballoc {

class SetUpLatch {
 public:
  bool is_open() const { return stage_.load(std::memory_order_acquire) == open; }
  // True for one caller, who sets up, or has it done, and lets go; the others wait().
  bool claim() {
    std::uint32_t expected = untouched;
    return stage_.compare_exchange_strong(expected, set_up_runs);
  }
  void let_go() {
    stage_.store(open, std::memory_order_release);
    os::futex_wake(raw(), 1 << 30);
  }
  // Bounded: a daemon that does not answer holds the program up for 2 s, once.
  void wait() {
    const std::uint64_t deadline = os::now_ns() + limit_ns;
    while (stage_.load(std::memory_order_acquire) == set_up_runs) {
      os::futex_wait_for(raw(), set_up_runs, look_ns);
      // Late: nobody waits for it any more, the pager takes over whenever it comes.
      if (os::now_ns() >= deadline) let_go();
    }
  }

  // In a forked child, where nobody waits: as before the first claim(), or open.
  void close_in_child() { stage_.store(untouched); }
  void open_in_child() { stage_.store(open); }

 private:
  enum : std::uint32_t { untouched, set_up_runs, open };
  static constexpr std::uint64_t limit_ns = 4'000'000'000;
  static constexpr std::uint64_t look_ns = 100'000'000;
  const std::uint32_t* raw() const { return reinterpret_cast<const std::uint32_t*>(&stage_); }

  std::atomic<std::uint32_t> stage_{untouched};
};

}  // namespace terrace::liballoc
