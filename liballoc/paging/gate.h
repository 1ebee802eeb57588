// The gate: who holds it owns the state of every run. There is one writer at a time, the agent as a rule.
//
// A thread of the program comes in only for what is rare (fork, pins, advice, statistics), and the agent lets
// it in between two of its steps, each of which is short. malloc and free do without. Nothing that runs
// inside may touch memory of the heap: nobody would serve the touch. So signals wait meanwhile, as a handler
// may.
#pragma once

#include <atomic>
#include <cstdint>

#include "liballoc/base/lock.h"
#include "liballoc/base/os.h"

namespace terrace::liballoc {

class Gate {
 public:
  // ---- a thread of the program, with its signals blocked
  void enter() {
    waiting_.fetch_add(1);
    lock_.lock();
  }
  void leave() {
    lock_.unlock();
    if (waiting_.fetch_sub(1) == 1) os::futex_wake(raw(), 1);
  }
  // In a forked child: whoever held it or waited does not exist here.
  void reset_after_fork() {
    lock_.reset_after_fork();
    waiting_.store(0);
  }

  // ---- the agent
  // Lets those in first who wait; not for ever, as others may come again and again.
  void enter_last() {
    for (int round = 0; round < 8; ++round) {
      const std::uint32_t waiting = waiting_.load();
      if (waiting == 0) break;
      os::futex_wait_for(raw(), waiting, 1'000'000);
    }
    lock_.lock();
  }
  void leave_last() { lock_.unlock(); }
  bool somebody_waits() const { return waiting_.load(std::memory_order_relaxed) != 0; }

 private:
  const std::uint32_t* raw() const { return reinterpret_cast<const std::uint32_t*>(&waiting_); }
  Lock lock_;
  std::atomic<std::uint32_t> waiting_{0};
};

// The agent's scope.
class GateKeeper {
 public:
  explicit GateKeeper(Gate& gate) : gate_(gate) { gate_.enter_last(); }
  ~GateKeeper() { gate_.leave_last(); }
  GateKeeper(const GateKeeper&) = delete;
  GateKeeper& operator=(const GateKeeper&) = delete;

 private:
  Gate& gate_;
};

}  // namespace terrace::liballoc
