// The agent: the one thread of the library. It serves faults, moves data, follows the
// budget, and talks to the daemon.
//
// It never allocates and never takes a lock of the C library: a thread of the program may hold any of
// them while it waits for this one (fork holds malloc's). It works with the gate (paging/gate.h) and lets
// others in between two steps. The thread starts with the first large allocation of a process that has a
// budget or a daemon. While memory is plenty it only looks, now and then, whether it still is (high_water.h).
#pragma once

#include <atomic>
#include <cstdint>

#include "liballoc/agent/budget_follower.h"
#include "liballoc/agent/client/client.h"
#include "liballoc/agent/fault_injection.h"
#include "liballoc/agent/high_water.h"
#include "liballoc/fork_ledger.h"
#include "liballoc/mover.h"
#include "liballoc/options.h"
#include "tiers/nvme_tier.h"

namespace terrace::liballoc {

class Heap;

class Agent {
 public:
  // Starts the thread once, if the options ask for one, and waits until it is known whether there is a pager.
  // Any thread, without the heap's lock.
  void start_if_wanted(Heap* heap);
  // Wakes the thread if it sleeps. Any thread; async-signal-safe.
  void kick();
  // Whether the pager is at work; a dormant one is woken first. Any thread, without the gate.
  bool ensure_paging();
  const char* pager_state() const { return state_; }
  const char* reason() const { return reason_; }
  const Mover& mover() const { return mover_; }
  const char* io() const { return tier_ != nullptr ? tier_->io() : "none"; }

  // Fork handlers; see fork_handlers.cpp for the order.
  void reset_in_child();
  // In the child: a userfaultfd and a thread of its own. False: evicted data cannot be served here.
  bool restart_in_child(Heap* heap);

 private:
  static void* thread_main(void* self);
  bool create_thread();
  bool open_kick();
  void close_kick();
  void check_descriptors();
  void descriptor_lost(int fd);
  void set_up();
  void set_up_done();
  void start_anew_in_child();
  const char* start_serving_in_child(Heap* heap);
  void await_set_up();
  void connect();
  bool open_mover();
  bool open_tier();
  int open_pool_file(int* fd);
  bool pool_unusable(int error);
  std::uint64_t default_pool_bytes(int fd) const;
  void run();
  void wait(int timeout_ms);
  int timeout_ms() const;
  void round();
  void serve_faults();
  bool is_busy() const;
  void trim();
  void look_at_memory(std::uint64_t now_ns);
  void begin_paging();
  void follow_daemon(std::uint64_t now_ns);
  void follow_budget(std::uint64_t now_ns);
  void reap_children();
  void publish(std::uint64_t now_ns);
  void give_up(const char* reason);

  enum : std::uint32_t { untouched, starting, ready };

  Heap* heap_ = nullptr;
  HighWater high_water_;
  std::atomic<std::uint32_t> wanted_{0};  // begin_paging() was asked for
  std::atomic<std::uint32_t> started_{untouched};
  std::atomic<std::uint32_t> asleep_{0};
  std::atomic<std::uint32_t> kicked_{0};  // since the last round began: it does not sleep
  int kick_read_fd_ = -1;  // a pipe: unlike an eventfd it has an inode of its own (own_descriptors.h)
  int kick_write_fd_ = -1;
  int device_fd_ = -1;  // /dev/userfaultfd, from the daemon
  long process_ = 0;
  std::uint64_t last_fault_ns_ = 0;
  std::uint64_t granted_bytes_ = 0;
  std::uint64_t pool_bytes_ = 0;
  std::uint64_t next_tick_ns_ = 0;
  std::uint64_t next_publish_ns_ = 0;
  std::uint64_t next_check_ns_ = 0;
  bool is_set_up_ = false;  // as far as it will be: set_up() came to its end. Under the gate
  bool uses_daemon_ = false;
  bool pool_is_granted_ = false;  // by the daemon, whose limit on it counts; else the file is our own
  bool restoring_ = false;        // in a forked child: serves what the parent had evicted
  std::size_t gone_children_ = 0;
  int gone_[ForkLedger::most_children] = {};
  static constexpr const char* not_asked_for = "no budget was asked for (TERRACE_DRAM)";
  const char* state_ = "inactive";
  const char* reason_ = not_asked_for;
  Client client_;
  Mover mover_;
  tiers::NvmeTier nvme_;
  FaultInjection injection_;
  tiers::Tier* tier_ = nullptr;
  BudgetFollower follower_;
};

}  // namespace terrace::liballoc
