// The pager: decides which runs are in DRAM and carries them to the tier and back.
//
// It is a state machine (run_table.h) driven by one thread, the agent: faults, finished transfers and the
// policy all arrive there, so that a run has one owner at every transition. Other threads enter only through
// on_allocate() and on_free(), under the same lock, and never wait for it to move data.
//
// What is counted is memory: `backed` runs and frames, at most `budget`. Reactive policy:
//  * keep what is used, write out the oldest idle: runs of live blocks queue in `idle_` by last use;
//  * written runs stay cached in their frame until memory is short: an eviction that a
//    touch takes back is free;
//  * expect evicted runs back in reverse order (backward passes do that): when the job's live data shrinks,
//    bring back the most recently evicted first, block by block in address order;
//  * once a job has outgrown its budget, begin to write as soon as its data grows again, so that the
//    device is busy throughout the forward pass instead of when it is too late (policy.cpp).
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <span>

#include "liballoc/address_space.h"
#include "liballoc/client.h"
#include "liballoc/fork_ledger.h"
#include "liballoc/lock.h"
#include "liballoc/mover.h"
#include "liballoc/os.h"
#include "liballoc/run_codec.h"
#include "liballoc/run_table.h"
#include "liballoc/staging.h"
#include "liballoc/terrace.h"
#include "tiers/tier.h"

namespace terrace::liballoc {

// Whether the job's live data is growing (forward pass) or shrinking (backward pass): a zigzag filter that
// turns when the count has come back by more than `slack` from its extreme. Pure.
class Phase {
 public:
  void update(std::uint32_t live, std::uint32_t slack);
  bool growing() const { return growing_; }
  // The most live runs to expect: the higher of the last two peaks and of now.
  std::uint32_t expected_peak() const;

 private:
  bool growing_ = true;
  std::uint32_t extreme_ = 0;
  std::uint32_t peaks_[2] = {};
};

class Pager {
 public:
  enum class Mode : std::uint8_t {
    plain,    // no pager: every run that was handed out counts as resident
    paging,   // evicts and restores
    restore,  // a forked child: brings back what the parent had evicted, evicts nothing
  };

  // ---- set-up; before any other thread knows of the heap, or under its lock -------------------------------
  int initialise(std::byte* base, std::size_t bytes, AddressSpace* space);
  // Starts paging with an open mover. The tier and the client outlive the pager.
  int activate(Mover* mover, tiers::Tier* tier, Client* client, std::uint64_t budget_bytes,
               Compression compression = Compression::off);
  // May begin or stop to compress, too: fit_codec().
  void set_budget(std::uint64_t bytes);
  // This process's share of the pool, when several of one job use it.
  void set_pool_limit(std::uint64_t bytes);
  // mlockall: what is in DRAM stays, what is not comes when it is touched. Under the lock, any thread.
  void stop_evicting();
  void resume_evicting();
  bool evicts() const { return evicts_; }
  // Takes our memory out of what the kernel locked: pages locked in place can be neither moved nor dropped.
  void unlock_memory();

  // ---- any thread, under the heap's lock; constant time per run ------------------------------------------
  void on_allocate(std::uint32_t block);
  void on_free(std::uint32_t block);
  // The block grew or shrank in place: `granules` from `first` joined or left it.
  void on_extend(std::uint32_t block, std::uint32_t first, std::uint32_t granules);
  void on_cut(std::uint32_t first, std::uint32_t granules);
  // The agent should be woken: there is work that no fault will bring to its notice.
  bool wants_agent() const;
  // calloc: the block's whole empty runs shall be zero when first touched; before on_allocate().
  void mark_zero_fill(std::uint32_t block);
  // After that, whether run n of the block needs no clearing. `virgin`: its addresses were never handed out.
  bool reads_as_zero(std::uint32_t n, bool virgin) const;
  std::uint32_t data_runs() const { return data_runs_; }
  // For `block`, whose pins go with it when it is freed, also where others share its runs. 0: for nobody.
  void pin(std::uint32_t first_run, std::uint32_t last_run, std::uint32_t block = 0);
  void unpin(std::uint32_t first_run, std::uint32_t last_run, std::uint32_t block = 0);
  // The program locked or unlocked whole pages (pager_locks.cpp). ENOMEM: that cannot be noted. True: some
  // were locked.
  int lock_pages(const std::byte* begin, const std::byte* end);
  bool unlock_pages(const std::byte* begin, const std::byte* end);
  void unlock_all_pages();
  // Whether enough of the budget would be left to page with, over all that is pinned already.
  bool can_pin(std::uint32_t first_run, std::uint32_t last_run) const;
  // The program discarded the range (MADV_DONTNEED): evicted runs inside it come back as zeroes.
  void forget(std::uint32_t first_run, std::uint32_t last_run);
  // The same for what is resident, when the kernel has dropped it: its memory is not counted any more.
  void forget_resident(std::uint32_t first_run, std::uint32_t last_run);
  // The kernel is about to take pages out of the resident ones: what is missing then are zeroes.
  void expect_holes(std::uint32_t first_run, std::uint32_t last_run);
  // Gives recycled memory back to the kernel, oldest first, until at most `keep` runs
  // are left. Runs given back.
  std::uint32_t trim(std::uint32_t keep);

  // ---- the agent's thread --------------------------------------------------------------------------------
  void handle_fault(const Fault& fault);  // takes the lock itself
  void handle_completions();              // polls the tier
  bool balance();                         // one round of policy; true: call again
  void advise(std::uint32_t first_run, std::uint32_t last_run, terrace_advice advice);  // under the lock

  // ---- fork (pager_fork.cpp); under the lock, but for the first ------------------------------------------
  // While the agent rests: nothing is left half written if the device allows within `limit_ns`.
  void prepare_fork(std::uint64_t limit_ns);
  // From here to after_fork_*() the lock is not let go: what the child will find does not change any more.
  void seal_for_fork();
  void after_fork_in_parent(bool child_exists);
  // True when runs are evicted, so that the child needs an agent of its own.
  bool after_fork_in_child();
  int start_restoring(Mover* mover);
  // No agent is to be had: what is evicted becomes inaccessible rather than wrong.
  void abandon_stored();
  ForkLedger& forks() { return forks_; }
  // A child has gone: gives back the extents that only it could still read.
  void release_unread_extents();

  // ---- accounts ------------------------------------------------------------------------------------------
  Mode mode() const { return mode_; }
  std::uint64_t live_bytes() const { return counts_.heap_live_bytes; }
  void fill(terrace_statistics* out) const;
  std::uint64_t backed_bytes() const { return std::uint64_t{backed_} * run_bytes; }
  std::uint64_t budget_bytes() const { return std::uint64_t{budget_} * run_bytes; }
  std::uint32_t recycled_runs() const { return recycled_.size(); }
  // What extents really take of the tier, with their rounding and those that are not trusted any more.
  std::uint64_t pool_used_bytes() const { return tier_ != nullptr ? tier_->space().used_bytes : 0; }
  bool is_quiet() const;
  bool tier_failing() const { return tier_failing_; }
  const Run& run(std::uint32_t n) const { return runs_[n]; }
  std::byte* run_address(std::uint32_t n) const { return base_ + std::size_t{n} * run_bytes; }
  std::uint32_t run_of(const void* address) const {
    return static_cast<std::uint32_t>(
        static_cast<std::size_t>(static_cast<const std::byte*>(address) - base_) / run_bytes);
  }
  void check_invariants() const;
  Lock& lock() { return *lock_; }
  void use_lock(Lock* lock) { lock_ = lock; }

 private:
  // A transfer between a frame and the tier. It outlives the run's interest in it: a run that is freed or
  // rescued meanwhile leaves the operation with run == none, and its end only tidies up.
  struct Operation {
    std::uint32_t run = none;
    std::uint32_t frame = none;  // none: a rescued run took it along
    std::uint64_t slot_offset = 0;
    std::uint64_t sum = 0;
    std::uint32_t generation = 0;
    std::uint32_t slot_epoch = 0;
    std::uint32_t bytes = 0;  // of the extent; 0: none yet
    std::uint64_t submitted_ns = 0;
    unsigned buffer = RunCodec::no_buffer;
    std::byte* data = nullptr;  // what is written, or read to
    bool write = false;
    bool busy = false;
    bool releases_slot = false;
    bool retried = false;
  };
  static constexpr unsigned most_operations = 32;
  static constexpr std::uint32_t writes_in_flight = 6;
  static constexpr std::uint32_t reads_in_flight = 8;
  static constexpr std::uint32_t copy_allowance = 12;

  void fit_codec(std::uint64_t runs);

  // pager.cpp: transitions
  void enlist(std::uint32_t n);
  void delist(std::uint32_t n);
  RunList* list_of(const Run& r);
  void become(std::uint32_t n, RunState state);
  void settle(std::uint32_t n);  // resident now: account the wait, wake
  // To and from forked children (MADV_DOFORK, MADV_DONTFORK). False: the kernel refuses.
  bool show(std::uint32_t n);
  bool hide(std::uint32_t n);
  bool back(std::uint32_t n);
  void let_go_of_pins(std::uint32_t n);
  bool put_back(std::uint32_t n);
  void keep_in_frame(std::uint32_t n, int error);
  void unstick(Run& r);
  bool stage(std::uint32_t n);
  bool unstage(std::uint32_t n);
  void rescue(std::uint32_t n);
  void lose(std::uint32_t n, const char* why, int error);
  void release_slot(Run& r);
  void release_extent(const tiers::Extent& extent, std::uint32_t epoch);
  void give_back(const tiers::Extent& extent);
  void enqueue(std::uint32_t n);
  void fault_on_resident(std::uint32_t n, std::byte* address);
  void fault_on_missing(std::uint32_t n);
  void back_ahead(std::uint32_t n);
  void put_back_neighbours(std::uint32_t n);
  void restore_cached(std::uint32_t n);

  // pager_blocks.cpp
  void attach_block(std::uint32_t n, std::uint32_t block, bool whole);
  void take_hints(std::uint32_t n);
  void own_whole(std::uint32_t n, std::uint32_t block);
  void detach_block(std::uint32_t n);
  std::uint16_t* own_pins(std::uint32_t block, std::uint32_t n);
  void let_go_of_own_pins(std::uint32_t block, std::uint32_t n);

  // pager_locks.cpp
  using PageSet = std::bitset<run_bytes / os::page_bytes>;
  bool make_lock_table();
  bool unlock_pages_of(std::uint32_t n, const std::byte* begin, const std::byte* end);
  void forget_locks(std::uint32_t n);
  std::size_t page_in_run(const std::byte* address) const {
    return static_cast<std::size_t>(address - base_) % run_bytes / os::page_bytes;
  }

  // pager_frames.cpp
  std::uint32_t take_frame(bool reclaim_cached);
  std::uint32_t take_copy_frame();
  std::uint32_t create_frame(std::uint32_t allowance);
  std::uint32_t steal_recycled();
  bool drop_recycled(std::uint32_t n);
  void grow_backed();
  void reclaim(std::uint32_t n);
  void show_stuck(bool to_children);

  // pager_accounts.cpp
  void tell(wire::EventKind kind, std::uint32_t n, std::uint64_t bytes);
  void report_block(std::uint32_t n, const char* what, int error);

  // transfers.cpp
  Operation* new_operation();
  bool start_write();
  Operation* begin_write(std::uint32_t* run);
  bool reserve_for(Operation* op);
  bool start_read(std::uint32_t n, bool demanded);
  void refuse_writes(int error, bool by_share);
  void retry_read(Operation* op);
  void submit(Operation* op);
  void finish(Operation* op, int error);
  void observe(const Operation& op);
  std::uint64_t awaited_since(bool write) const;
  void finish_write(Operation* op, int error);
  void finish_read(Operation* op, int error);
  void write_failed(Operation* op, int error);
  void tidy(Operation* op);

  // policy.cpp
  std::uint32_t reserve_runs() const;
  std::uint32_t spare_runs() const;
  bool has_old_idle() const;
  bool wants_eviction() const;
  bool wants_read_ahead() const;
  bool serve_pending();
  void pop_pending();
  bool serve_stuck(std::uint32_t n);
  bool can_back() const;
  bool relieve();
  void return_to_budget();
  bool evict_one();
  bool read_ahead_one();
  std::uint32_t next_expected();
  bool shed_excess();

  // pager_fork.cpp
  static constexpr std::uint32_t child_frames = 256;
  bool shares_pool() const;
  void show_what_stayed_hidden();
  void adopt_inherited(std::uint32_t n);
  static void mover_poison_in_child(std::byte* address);

  Lock* lock_ = nullptr;
  Mode mode_ = Mode::plain;
  std::byte* base_ = nullptr;
  std::uint32_t run_count_ = 0;
  Run* runs_ = nullptr;
  AddressSpace* space_ = nullptr;
  Mover* mover_ = nullptr;
  tiers::Tier* tier_ = nullptr;
  Client* client_ = nullptr;
  Staging staging_;
  RunCodec codec_;
  Compression compression_ = Compression::off;  // as was asked for
  ForkLedger forks_;

  RunList idle_;      // resident, live, unpinned: oldest use first
  RunList recycled_;  // resident, no live block: oldest free first
  RunList staged_;    // waiting to be written
  RunList cached_;    // written, still in a frame: oldest eviction first
  RunList loaded_;    // read ahead, in a frame: soonest expected first
  RunList stored_;    // on the tier only: oldest eviction first

  std::uint32_t* pending_ = nullptr;  // ring of runs that wait for a frame or a read
  std::uint32_t pending_head_ = 0;
  std::uint32_t pending_count_ = 0;
  Operation operations_[most_operations];
  std::uint32_t writes_ = 0;
  std::uint32_t reads_ = 0;

  std::uint32_t budget_ = 0;        // runs; 0: none
  std::uint32_t asked_budget_ = 0;  // before it had to give way
  std::uint32_t backed_ = 0;        // runs of memory: under addresses or in frames
  std::uint32_t used_frames_ = 0;
  std::uint32_t data_runs_ = 0;  // live runs that have content, wherever it lies
  std::uint32_t pinned_runs_ = 0;
  PageSet* locked_pages_ = nullptr;  // by run; none before the first lock
  std::uint64_t pool_limit_ = ~0ULL;
  std::uint32_t generation_ = 0;
  std::uint32_t arrivals_ = 0;       // runs that became resident, ever: the clock of their age
  std::uint64_t last_write_ns_ = 0;  // when the device was done with one
  std::uint64_t last_read_ns_ = 0;
  std::uint32_t cursor_run_ = none;  // read-ahead goes on here
  std::uint32_t cursor_block_ = 0;
  Phase phase_;
  bool outgrown_ = false;  // the job has needed more than its budget before
  bool pool_full_ = false;
  bool pool_full_told_ = false;
  bool tier_failing_ = false;
  std::uint32_t write_errors_ = 0;
  std::uint64_t retry_after_ns_ = 0;
  bool over_budget_told_ = false;
  bool back_in_budget_told_ = false;
  std::uint32_t stuck_runs_ = 0;  // each is in the queue
  std::uint64_t retry_put_ns_ = 0;
  bool stuck_told_ = false;
  bool evicts_ = true;
  bool some_stay_hidden_ = false;  // of what is in DRAM
  bool hide_refused_told_ = false;

  terrace_statistics counts_{};
};

}  // namespace terrace::liballoc
