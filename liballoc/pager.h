// The pager: decides which runs are in DRAM and carries them to the tier and back.
//
// It is a state machine (run_table.h) that belongs to who holds the gate (paging/gate.h), the agent as a
// rule: faults, finished transfers and the policy all arrive there, so that a run has one owner at every
// transition. What blocks come and go it reads from a queue (paging/block_queue.h), always before it serves a
// fault.
//
// As long as memory is plenty the pager sleeps (Mode::dormant): the kernel backs the heap by itself, nothing
// is watched, no run has a state. watch() and take_over() begin with what is there then.
//
// What is counted is memory: pages in place and in frames, at most `budget`. Reactive policy:
//  * keep what is used, write out what came longest ago: runs of live blocks queue in `idle_` by arrival;
//  what
//    comes round in a cycle queues apart (paging/insertion.h);
//  * scattered touches move pages, streams move runs (paging/reach.h); a scattered run is held a while in its
//  frame,
//    and what is touched there goes back, so that only what is cold is written;
//  * written runs stay cached in their frame until memory is short: an eviction that a touch takes back is
//  free;
//  * what was read is written again only where it was changed (paging/page_table.h);
//  * expect evicted runs back in the order of last time (paging/read_ahead.h), and when the job's live data
//  shrinks
//    (backward passes) the most recently evicted first, block by block in address order;
//  * once a job has outgrown its budget, begin to write as soon as its data grows again, so that the
//    device is busy throughout the forward pass instead of when it is too late (policy.cpp).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "liballoc/address_space.h"
#include "liballoc/agent/client/client.h"
#include "liballoc/fork_ledger.h"
#include "liballoc/mover.h"
#include "liballoc/os.h"
#include "liballoc/paging/block_queue.h"
#include "liballoc/paging/block_table.h"
#include "liballoc/paging/free_runs.h"
#include "liballoc/paging/insertion.h"
#include "liballoc/paging/page_table.h"
#include "liballoc/paging/reach.h"
#include "liballoc/paging/read_ahead.h"
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
    plain,    // no pager
    dormant,  // a pager that need not do anything yet
    paging,   // evicts and restores
    restore,  // a forked child: brings back what the parent had evicted, evicts nothing
  };

  // ---- set-up; before any other thread knows of the heap, or with the gate -------------------------------
  int initialise(std::byte* base, std::size_t bytes, std::uint32_t most_blocks, BlockQueue* queue,
                 FreeRuns* free_runs);
  // Makes everything ready with an open mover; then the pager is dormant. The tier and the client outlive it.
  int activate(Mover* mover, tiers::Tier* tier, Client* client, std::uint64_t budget_bytes,
               Compression compression = Compression::off);
  // From here on touches of what is not there are ours to serve, as soon as we have taken over. All live
  // blocks were learned. 0 or the errno of userfaultfd, and then the pager is plain.
  int watch();
  // Adopts what is there, up to the top: known only now, or a page that was touched just before is lost.
  void take_over();
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

  // ---- blocks --------------------------------------------------------------------------------------------
  // Reads what the program's threads noted. Before anything is decided that depends on which blocks there
  // are.
  void follow_blocks();
  // A block that was there when notes began to be taken.
  void learn_block(std::uint32_t id, const KnownBlock& block);
  // How far up there may be memory.
  void know_top(std::uint32_t granule) {
    top_run_ = std::max(top_run_, (granule + granules_per_run - 1) / granules_per_run);
  }
  // While none are taken: a block of which something is to be pinned, and when it is about to be freed.
  void know_block(std::uint32_t id, const KnownBlock& block);
  void let_go_of_block(std::uint32_t id);
  const std::byte* block_end(std::uint32_t id) const {
    return base_ + std::size_t{blocks_[id].end()} * granule_bytes;
  }
  // There is work that no fault will bring to the agent's notice.
  bool wants_agent() const;
  std::uint32_t data_runs() const { return data_runs_; }
  // For `block`, whose pins go with it when it is freed, also where others share its runs. 0: for nobody.
  void pin(std::uint32_t first_run, std::uint32_t last_run, std::uint32_t block = 0);
  void unpin(std::uint32_t first_run, std::uint32_t last_run, std::uint32_t block = 0);
  // The program locked or unlocked whole pages (pager_locks.cpp). ENOMEM: that cannot be noted. True: some
  // were locked.
  int lock_pages(const std::byte* begin, const std::byte* end);
  bool unlock_pages(const std::byte* begin, const std::byte* end);
  void unlock_all_pages(std::uint32_t top_granule);
  // Whether enough of the budget would be left to page with, over all that is pinned already.
  bool can_pin(std::uint32_t first_run, std::uint32_t last_run) const;
  // The kernel has dropped the pages of [begin, end) (MADV_DONTNEED), which are the program's to drop:
  // wherever else they are they are forgotten, and read as zeroes from here on.
  void forget(const std::byte* begin, const std::byte* end);
  // Gives recycled memory back to the kernel, oldest first, until at most `keep` runs
  // are left. Runs given back.
  std::uint32_t trim(std::uint32_t keep);

  // ---- the agent's thread --------------------------------------------------------------------------------
  // Whether there is a transfer free for one more fault.
  bool can_take_fault() const;
  void handle_fault(const Fault& fault);
  void handle_completions();  // polls the tier
  bool balance();             // one round of policy; true: call again
  void advise(std::uint32_t first_run, std::uint32_t last_run, terrace_advice advice);

  // ---- fork (pager_fork.cpp) -----------------------------------------------------------------------------
  // Nothing is left half written if the device allows within `limit_ns`.
  void prepare_fork(std::uint64_t limit_ns);
  // From here to after_fork_*() nobody frees or allocates, either: what the child will find does not change.
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
  bool is_paging() const { return mode_ == Mode::paging || mode_ == Mode::restore; }
  // While it is dormant: what the heap holds at most, for the statistics.
  void estimate_resident(std::uint64_t bytes);
  void fill(terrace_statistics* out) const;
  std::uint64_t backed_bytes() const { return backed_pages_ * os::page_bytes; }
  std::uint64_t budget_bytes() const { return std::uint64_t{budget_} * run_bytes; }
  std::uint32_t recycled_runs() const { return recycled_.size(); }
  // What extents really take of the tier, with their rounding and those that are not trusted any more.
  std::uint64_t pool_used_bytes() const { return tier_ != nullptr ? tier_->space().used_bytes : 0; }
  bool is_quiet() const;
  bool tier_failing() const { return tier_failing_; }
  const Run& run(std::uint32_t n) const { return runs_[n]; }
  // Of a run, what is in its frame or on the tier.
  PageSet pages_away(std::uint32_t n) const {
    return (pages_[n].in_frame | pages_[n].stored) - pages_[n].in_place;
  }
  std::byte* run_address(std::uint32_t n) const { return base_ + std::size_t{n} * run_bytes; }
  std::uint32_t run_of(const void* address) const {
    return static_cast<std::uint32_t>(
        static_cast<std::size_t>(static_cast<const std::byte*>(address) - base_) / run_bytes);
  }
  void check_invariants() const;

 private:
  // What goes to the tier or comes from it (transfers.cpp). It outlives the run's interest in it: a run that
  // is freed meanwhile leaves the operation with run == none, and its end only tidies up.
  struct Operation {
    enum class Kind : std::uint8_t { write, fill, read, piece };
    std::uint32_t run = none;
    std::uint32_t frame = none;
    std::uint64_t slot_offset = 0;
    std::uint64_t sum = 0;
    std::uint32_t generation = 0;
    std::uint32_t slot_epoch = 0;
    std::uint32_t slot_bytes = run_bytes;  // of the extent: fewer when compressed
    std::uint32_t bytes = 0;               // submitted
    std::uint32_t cursor = 0;              // pages before it are submitted
    std::uint32_t parts = 0;               // transfers in flight
    int error = 0;
    std::uint64_t submitted_ns = 0;
    std::uint64_t wait_since_ns = 0;
    unsigned buffer = RunCodec::no_buffer;
    std::byte* data = nullptr;  // where page 0 of the run would be
    PageSet pages;
    Kind kind = Kind::read;
    bool busy = false;
    bool owns_frame = false;     // the run has let go of it
    bool owns_slot = false;      // a new extent, the run's when the write has ended
    bool releases_slot = false;  // and nobody's if the run has gone
    bool shares_slot = false;    // the extent of a run that has gone; the last of its transfers gives it back
    bool retried = false;
  };
  static constexpr unsigned most_pieces = 32;
  static constexpr unsigned pieces_for_touches = 8;  // not taken by what only may be touched
  static constexpr unsigned most_operations = most_pieces + 32;
  static constexpr std::uint32_t writes_in_flight = 6;
  static constexpr std::uint32_t reads_in_flight = 8;
  static constexpr std::uint32_t reads_ahead = 3;  // enough for the device, and what is touched waits for few

  void fit_codec(std::uint64_t runs);

  // pager.cpp: transitions
  void enlist(std::uint32_t n);
  void delist(std::uint32_t n);
  const RunList* list_of(const Run& r) const;
  RunList* list_of(const Run& r);
  void become(std::uint32_t n, RunState state);
  void settle_state(std::uint32_t n);
  void settle(std::uint32_t n);  // it came: account the wait
  bool has_data(const Run& r) const { return r.live > 0 && r.state != RunState::empty; }
  std::array<RunList*, 8> lists() {
    return {&idle_, &streamed_, &recycled_, &held_, &staged_, &cached_, &loaded_, &stored_};
  }
  bool back(std::uint32_t n);
  void let_go_of_pins(std::uint32_t n);
  bool put_back(std::uint32_t n);
  bool put_back_pages(std::uint32_t n, PageRange range);
  void keep_in_frame(std::uint32_t n, int error);
  void unstick(Run& r);
  bool spare(std::uint32_t n);
  bool miss(std::uint32_t n, const PageSet& gone);
  bool stage(std::uint32_t n);
  bool unstage(std::uint32_t n);
  void rescue(std::uint32_t n);
  Operation* operation_of(std::uint32_t n);
  void lose(std::uint32_t n, const char* why, int error);
  void release_slot(Run& r);
  void release_extent(const tiers::Extent& extent, std::uint32_t epoch);
  void give_back(const tiers::Extent& extent);

  // pager_faults.cpp
  void enqueue(std::uint32_t n);
  void fault_in_place(std::uint32_t n, std::uint32_t page);
  void show_zeroes(std::uint32_t n, PageRange range);
  bool follows(std::uint32_t n) const;
  PageRange reach_of(std::uint32_t n, std::uint32_t page);
  bool is_scattered_block(std::uint32_t block) const;
  void bring_fresh(std::uint32_t n, std::uint32_t page);
  void bring_from_frame(std::uint32_t n, std::uint32_t page, bool is_strided);
  void bring_from_tier(std::uint32_t n, std::uint32_t page, bool is_strided);
  void bring_strides(std::uint32_t n, const Strides::Ahead& ahead);
  bool bring_stride(std::uint32_t n, std::uint32_t page);
  void back_ahead(std::uint32_t n);
  void put_back_neighbours(std::uint32_t n);
  void restore_cached(std::uint32_t n);

  // pager_blocks.cpp
  void on_allocate(const BlockEvent& event);
  void on_extend(const BlockEvent& event);
  void on_free(std::uint32_t id);
  void drop_small(std::uint32_t n);
  void attach_run_range(std::uint32_t id, std::uint32_t first, std::uint32_t granules, bool zeroed);
  void attach_block(std::uint32_t n, std::uint32_t block, bool whole);
  void take_hints(std::uint32_t n);
  void own_whole(std::uint32_t n, std::uint32_t block);
  void detach_block(std::uint32_t n);
  std::uint16_t* own_pins(std::uint32_t block, std::uint32_t n);
  void let_go_of_own_pins(std::uint32_t block, std::uint32_t n);

  // pager_locks.cpp
  bool make_lock_table();
  bool unlock_pages_of(std::uint32_t n, const std::byte* begin, const std::byte* end);
  void forget_locks(std::uint32_t n);
  std::uint32_t page_in_run(const std::byte* address) const {
    return static_cast<std::uint32_t>(static_cast<std::size_t>(address - base_) % run_bytes / os::page_bytes);
  }

  // pager_begin.cpp
  void hide_heap(bool from_children);
  void adopt_resident();
  void adopt_pages(std::uint32_t n, PageRange pages, bool is_huge);
  void adopt_run(std::uint32_t n);
  void forget_pages(std::uint32_t n, PageRange range);

  // pager_frames.cpp
  void gain(std::uint32_t pages);
  void lose_memory(std::uint32_t pages) { backed_pages_ -= pages; }
  std::uint64_t budget_pages() const { return std::uint64_t{budget_} * pages_per_run; }
  std::uint32_t backed_runs() const {
    return static_cast<std::uint32_t>((backed_pages_ + pages_per_run - 1) / pages_per_run);
  }
  std::uint32_t take_frame(bool reclaim_cached);
  std::uint32_t create_frame();
  std::uint32_t steal_recycled();
  bool drop_recycled(std::uint32_t n);
  bool empty_recycled(std::uint32_t n);
  bool can_reclaim() const;
  void reclaim_one();
  void make_room(std::uint32_t pages);
  void release_frame(std::uint32_t frame);
  void reclaim(std::uint32_t n);
  void show_stuck(bool to_children);

  // pager_accounts.cpp
  void tell(wire::EventKind kind, std::uint32_t n, std::uint64_t bytes);
  void report_block(std::uint32_t n, const char* what, int error);

  // transfers.cpp
  Operation* new_operation(Operation::Kind kind, std::uint32_t n);
  std::byte* piece_buffer(const Operation& op);
  bool start_write();
  bool prepare_write(Operation* op, const PageSet& dirty);
  void encode(Operation* op, std::uint32_t n);
  bool reserve_for(Operation* op);
  bool give_up_copies();
  void refuse_writes(int error, bool by_share);
  void end_leaving(std::uint32_t n);
  bool start_fill(Operation* op);
  void finish_fill(Operation* op, bool intact);
  bool start_read(std::uint32_t n, bool demanded);
  bool is_on_its_way(std::uint32_t n, std::uint32_t page) const;
  void start_piece(std::uint32_t n, PageRange wanted, bool demanded);
  void finish_piece(Operation* op, bool intact);
  void advance(Operation* op);
  bool read_again(Operation* op);
  bool is_intact(Operation* op);
  void finish(Operation* op);
  void observe(const Operation& op);
  std::uint64_t awaited_since(bool write) const;
  void let_go_of_transfers(std::uint32_t n, bool releases);
  bool ends_extent(const Operation& op) const;
  void tidy(Operation* op);
  void finish_write(Operation* op);
  void write_failed(Operation* op);
  void finish_read(Operation* op, bool intact);

  // policy.cpp
  std::uint32_t reserve_runs() const;
  std::uint32_t spare_runs() const;
  std::uint32_t away_runs() const;
  std::uint32_t stream_window() const;
  bool is_streaming() const;
  bool has_old_idle() const;
  bool wants_eviction() const;
  bool wants_read_ahead() const;
  bool serve_pending();
  void pop_pending();
  bool serve_stuck(std::uint32_t n);
  bool can_back() const;
  bool relieve();
  void return_to_budget();
  RunList* next_victims();
  bool evict_one();
  bool release_held(bool at_once);
  bool read_ahead_one();
  std::uint32_t next_expected();
  bool shed_excess();
  void send_out(std::uint32_t n, bool page_out);

  // pager_fork.cpp
  static constexpr std::uint32_t child_frames = 256;
  void put_back_what_leaves();
  bool shares_pool() const;
  void show_frames(bool to_children);
  bool has_something_away() const;
  void adopt_inherited(std::uint32_t n);
  static void mover_poison_in_child(std::byte* address);

  Mode mode_ = Mode::plain;
  std::byte* base_ = nullptr;
  std::uint32_t run_count_ = 0;
  Run* runs_ = nullptr;
  std::uint64_t estimate_ = 0;  // estimate_resident()
  std::uint32_t top_run_ = 0;   // past the last run on which a block ever lay while blocks were noted
  BlockQueue* queue_ = nullptr;
  FreeRuns* free_runs_ = nullptr;
  BlockTable blocks_;
  Mover* mover_ = nullptr;
  tiers::Tier* tier_ = nullptr;
  Client* client_ = nullptr;
  Staging staging_;
  RunCodec codec_;
  Compression compression_ = Compression::off;  // as was asked for
  ForkLedger forks_;

  RunList idle_;      // resident, live, unpinned: oldest arrival first
  RunList streamed_;  // the same, to leave before those
  RunList held_;      // in their frames, and to go back where they are touched: oldest first
  RunList recycled_;  // resident, no live block: oldest free first
  RunList staged_;    // waiting to be written
  RunList cached_;    // written, still in a frame: oldest eviction first
  RunList loaded_;    // read ahead, in a frame: soonest expected first
  RunList stored_;    // on the tier only: oldest eviction first

  std::uint32_t* pending_ = nullptr;  // ring of runs that wait for a frame or a read
  std::uint32_t pending_head_ = 0;
  std::uint32_t pending_count_ = 0;
  Operation operations_[most_operations];
  std::byte* piece_buffers_ = nullptr;
  std::uint32_t pieces_ = 0;
  std::uint64_t cached_pages_ = 0;  // memory of the frames in cached_; in held_
  std::uint64_t held_pages_ = 0;
  bool some_are_stalled_ = false;  // operations of which the tier has not taken all
  PageTable pages_;
  Reach reach_;
  Strides strides_;
  Insertion insertion_;
  ReadAhead ahead_;
  std::uint32_t writes_ = 0;
  std::uint32_t reads_ = 0;

  std::uint32_t budget_ = 0;        // runs; 0: none
  std::uint32_t asked_budget_ = 0;  // before it had to give way
  std::uint64_t backed_pages_ = 0;  // of memory: under addresses or in frames
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

  terrace_statistics counts_{};
};

}  // namespace terrace::liballoc
