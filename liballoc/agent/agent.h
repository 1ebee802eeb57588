// The agent: the one thread of the library. It serves faults, moves data, follows the budget, and talks to
// the daemon.
//
// It never allocates and never takes a lock of the C library: a thread of the program may hold any of them
// while it waits for this one (fork holds malloc's). It works with the gate (paging/gate.h) and lets others
// in between two steps. The thread starts with the first large allocation of a process that has a budget or a
// daemon. While memory is plenty it only looks, now and then, whether it still is (high_water.h).
//
// This class is the thread's life and its loop. What a round does has a class each:
//
//   waker.h, wait_set.h                sleep and be woken
//   mover_access.h, pool/pool_tier.h   what the pager needs, opened once
//   take_over.h                        when the pager begins
//   daemon_link.h, budget.h            how much the heap may hold, and who says so
//   kernel_swap.h                      when the kernel swaps instead
//   publisher.h                        what the daemon is told
//
// What transfers compute, other threads do where there are processors to spare (paging/transfers/workers.h).
// They start with the agent, and like it never end. One more keeps the processor of a thread that waits from
// halting, where that pays (waiting/halt_polling.h).
#pragma once

#include "liballoc/agent/budget.h"
#include "liballoc/agent/daemon_link.h"
#include "liballoc/agent/kernel_swap.h"
#include "liballoc/agent/mover_access.h"
#include "liballoc/agent/pool/pool_tier.h"
#include "liballoc/agent/publisher.h"
#include "liballoc/agent/take_over.h"
#include "liballoc/agent/waiting/busy_wait.h"
#include "liballoc/agent/waiting/halt_poller.h"
#include "liballoc/agent/waiting/halt_polling.h"
#include "liballoc/agent/waiting/set_up_latch.h"
#include "liballoc/agent/waiting/wait_set.h"
#include "liballoc/agent/waiting/waker.h"
#include "liballoc/base/availability.h"
#include "liballoc/heap/accounts.h"
#include "liballoc/heap/blocks.h"
#include "liballoc/heap/guarded_pager.h"
#include "liballoc/heap/huge_pages.h"
#include "liballoc/heap/recycled_memory.h"
#include "liballoc/paging/transfers/workers.h"

namespace terrace::liballoc {

// One to a process: what its padding costs is nothing, so the fields stand by meaning.
class Agent {  // NOLINT(clang-analyzer-optin.performance.Padding)
 public:
  constexpr Agent(const GuardedPager& guarded, Blocks& blocks, RecycledMemory& recycled,
                  HeapAccounts& accounts, HugePages& huge_pages, Waker& waker)
      : guarded_(guarded),
        blocks_(blocks),
        waker_(waker),
        wait_set_(waker, guarded.pager),
        mover_access_(guarded.options, availability_),
        pool_(guarded.options, availability_),
        take_over_(guarded, blocks, huge_pages, waker, mover_access_.mover(), availability_),
        budget_(guarded.pager, take_over_),
        daemon_(guarded, recycled, pool_, budget_, availability_),
        publisher_(guarded.pager, accounts, availability_, mover_access_.mover(), pool_, budget_, daemon_),
        workers_(&waker),
        kernel_swap_(guarded.pager, budget_, workers_, halt_poller_) {}

  // Starts the thread once, if the options ask for one, and waits until it is known whether there is a pager.
  // Any thread, without lock and gate.
  void start_if_wanted();

  constexpr const Availability& availability() const { return availability_; }
  const Mover& mover() const { return mover_access_.mover(); }
  const char* io() const { return pool_.io(); }
  constexpr TakeOver& take_over() { return take_over_; }

  // Fork handlers (agent_fork.cpp); see fork_handlers.cpp for the order.
  void reset_in_child();
  // In the child: a userfaultfd and a thread of its own. False: evicted data cannot be served here.
  bool restart_in_child();

 private:
  bool create_thread();
  static void* thread_main(void* self);
  void set_up();
  bool activate_pager();
  void start_anew_in_child();
  const char* start_serving_in_child();

  void run();
  void sleep();
  bool is_busy(std::uint64_t now_ns) const;
  int timeout_ms() const;
  void round();
  void page();
  void serve_faults();
  void note_fault(std::uint32_t thread, std::uint64_t now_ns);
  void take_completions();

  const GuardedPager& guarded_;
  Blocks& blocks_;
  Waker& waker_;
  SetUpLatch latch_;
  Availability availability_;
  WaitSet wait_set_;
  MoverAccess mover_access_;
  PoolTier pool_;
  TakeOver take_over_;
  Budget budget_;
  DaemonLink daemon_;
  Publisher publisher_;
  Workers workers_;
  HaltPoller halt_poller_;
  KernelSwap kernel_swap_;
  BusyWait busy_wait_;
  HaltPolling halt_polling_;
  std::uint64_t next_follow_ns_ = 0;
  std::uint64_t next_poll_ns_ = 0;
  bool is_set_up_ = false;  // as far as it will be: set_up() came to its end. Under the gate
  bool restoring_ = false;  // in a forked child: serves what the parent had evicted
};

}  // namespace terrace::liballoc
