// The heap of large allocations: one reserved range of addresses, owned by compare.
//
// Heap ties together where blocks lie (address_space.h), what backs them (pager.h) and the thread that moves
// it (agent.h). There is one heap in a process, in static storage without constructors or destructors: it
// must work before main and after exit.
//
// Two things are owned. The lock covers where blocks lie: malloc and free take it, for well under a
// microsecond, and while memory is short they leave a note for the agent (block_queue.h); nobody works or
// waits under it. The gate (gate.h) covers what backs them: the agent holds it while it works, and a thread
// of the program that asks for something rare. Inside the gate nobody waits for the lock: its holder may have
// been interrupted by a signal, whose handler waits for memory that only the agent brings back.
//
//   [base, base + arena)      bootstrap arena: what libc asks for while the next allocator is being looked up
//   [blocks, base + span)     blocks, 2 MiB runs
#pragma once

#include <cstddef>
#include <cstdint>

#include "liballoc/address_space.h"
#include "liballoc/agent/agent.h"
#include "liballoc/huge_pages.h"
#include "liballoc/lock.h"
#include "liballoc/options.h"
#include "liballoc/pager.h"
#include "liballoc/paging/block_queue.h"
#include "liballoc/paging/free_runs.h"
#include "liballoc/paging/gate.h"
#include "liballoc/signal_guard.h"

namespace terrace::liballoc {

// One to a process: what its padding costs is nothing, so the fields stand by meaning.
class Heap {  // NOLINT(clang-analyzer-optin.performance.Padding)
 public:
  // Reserves the range and registers the fork handlers. 0 or errno; on failure nothing is owned.
  int initialise(const Options& options);
  bool ready() const { return span_ != 0; }

  bool owns(const void* address) const { return reinterpret_cast<std::uintptr_t>(address) - base_ < span_; }
  std::uintptr_t base() const { return base_; }
  std::size_t span() const { return span_; }

  // nullptr when out of memory. `alignment` is a power of two. Zeroed: the content reads as zeroes.
  void* allocate(std::size_t bytes, std::size_t alignment, const void* call_site, bool zeroed,
                 unsigned hints = 0);
  // `block` must be owned. Aborts with a message when it is not the start of a live block.
  void release(void* block, const void* call_site);
  // Both sizes stay in the heap, and the hints the block's: one that is pinned moves to grow, and both must
  // fit the budget for a moment. nullptr: out of memory, the old block is untouched.
  void* resize(void* block, std::size_t bytes, const void* call_site);
  std::size_t usable_bytes(const void* block);

  // Whether a request, or a larger size of `block`, that the heap had no room for may be met by another
  // allocator: not where the heap is an emulated GPU's memory, nor for a block that was allocated pinned.
  bool may_overflow(const void* block);

  // Memory that is never given back, for the few requests made while nothing else works yet.
  void* bootstrap_allocate(std::size_t bytes, std::size_t alignment);
  bool is_bootstrap(const void* address) const {
    return reinterpret_cast<std::uintptr_t>(address) - base_ < arena_bytes;
  }

  // The runs of [address, address + bytes), which must lie inside one live block. The block, 0 otherwise.
  std::uint32_t runs_of_range(const void* address, std::size_t bytes, std::uint32_t* first,
                              std::uint32_t* last);
  // Brings the range's runs into DRAM. Pages of theirs that were never touched stay holes.
  // ENOMEM: what is pinned would leave too little of the budget.
  int pin(const void* address, std::size_t bytes);
  int unpin(const void* address, std::size_t bytes);
  // The kernel is about to keep references to these pages that it does not show (a pipe's after vmsplice, a
  // socket's until it has sent): they stay where they are until the block is freed, and are not used again
  // then.
  int lend(const void* address, std::size_t bytes);
  // After mlock() of pages of ours that are pinned now: they stay until munlock(). ENOMEM: that cannot be
  // noted.
  int note_lock(const void* address, std::size_t bytes);
  // munlock() of a range of ours. 0 or the errno of the kernel's.
  int unlock(const void* address, std::size_t bytes);
  int advise(const void* address, std::size_t bytes, terrace_advice advice);
  // The program drops the content of a range of ours (MADV_DONTNEED and its like, munmap): what was evicted
  // of it comes back as zeroes. 0 or the errno of the kernel's madvise, EINVAL for MADV_REMOVE and for an
  // address inside a page; what was evicted is forgotten only where the kernel dropped what was not.
  int discard(void* address, std::size_t bytes, int advice);
  std::size_t trim();
  // The same while the pager is not at work; with the gate.
  std::size_t trim_dormant();
  void statistics(terrace_statistics* out);
  void fill_statistics(terrace_statistics* out);  // the agent
  // mlockall and munlockall: errno values of the kernel's.
  int lock_everything(int flags);
  int unlock_everything();

  // The agent, with the gate: from now on it is told of blocks, and the pager knows those there are; or not
  // any more.
  void begin_recording();
  // How far up blocks have ever been.
  void tell_top();
  void end_recording() { recording_ = false; }
  // Granules that may have memory behind them, seen from any thread; and the number from which on the agent
  // is to be woken.
  std::uint32_t spread_granules() const;
  void wake_at(std::uint32_t granules) { wake_at_.store(granules); }

  Lock& lock() { return lock_; }
  Gate& gate() { return gate_; }
  Pager& pager() { return pager_; }
  Agent& agent() { return agent_; }
  AddressSpace& space() { return space_; }
  const Options& options() const { return options_; }
  // Whether there may ever be a pager in this process.
  bool may_page() const { return options_.dram_bytes != 0 || options_.socket[0] != '\0'; }

 private:
  static constexpr std::size_t arena_bytes = run_bytes;
  static constexpr std::size_t commit_bytes = std::size_t{1} << 30;
  static constexpr std::size_t limited_commit_bytes = std::size_t{1} << 26;
  static constexpr std::uint32_t look_after_granules = 8U << 20 >> 14;
  // Of a block, beside those of terrace.h: it was lent; the pager holds pins or locks of it though it is not
  // told of blocks.
  static constexpr unsigned lent_hint = 1U << 7;
  static constexpr unsigned held_hint = 1U << 6;

  // What allocate() did under the lock.
  struct Placed {
    std::uint32_t id = 0;
    std::uint32_t granules = 0;
    std::byte* address = nullptr;
    bool virgin = false;
    bool recorded = false;
    bool wakes = false;
  };

  bool reserve_range();
  bool fits_device(std::size_t more_bytes) const;
  void report_full_device(std::size_t bytes);
  void lock_with_room();
  Placed place(std::size_t bytes, std::size_t alignment, const void* call_site, bool zeroed, unsigned hints);
  bool grow(std::uint32_t id, std::size_t bytes);
  void note(BlockChange change, std::uint32_t id, std::uint32_t first, std::uint32_t granules, bool zeroed);
  bool commit(std::uint32_t top_granule);
  int discard_range(std::byte* begin, std::byte* end, int advice);
  void zero(const Placed& placed, std::size_t bytes);
  bool settle(std::uint32_t id);
  KnownBlock hold_block(std::uint32_t id);
  void add_counts(terrace_statistics* out) const;
  void move_content(void* from, void* to, std::size_t bytes);
  void decay_recycled();
  bool give_back_recycled(std::uint32_t most_granules);
  PageSet pages_away(std::uint32_t run);
  void wake(bool wanted) {
    if (wanted) agent_.kick();
  }
  [[noreturn]] void bad_pointer(const void* block, const char* operation, const void* call_site);

  std::uintptr_t base_ = 0;
  std::size_t span_ = 0;
  std::byte* blocks_ = nullptr;
  std::size_t committed_ = 0;
  std::size_t commit_step_ = commit_bytes;
  std::size_t arena_used_ = 0;
  bool full_device_reported_ = false;
  Lock lock_;
  Gate gate_;
  // Under the lock.
  AddressSpace space_;
  BlockQueue queue_;
  bool recording_ = false;
  std::uint32_t recorded_below_ = 0;  // blocks that begin under this granule are known to the agent
  std::uint64_t allocations_ = 0, frees_ = 0, recycled_allocations_ = 0;
  std::uint32_t peak_granules_ = 0;
  std::uint32_t peak_spread_ = 0;
  std::uint64_t window_start_ns_ = 0;
  std::uint32_t window_peak_[2] = {};
  std::atomic<std::uint32_t> wake_at_{~0U};
  FreeRuns free_runs_{&lock_, &space_};
  HugePages huge_pages_;
  Pager pager_;
  Agent agent_;
  Options options_;
};

// A thread of the program in the agent's place: the gate, with all notes read and the signals put off.
class InsideGate {
 public:
  explicit InsideGate(Heap& heap) : heap_(heap), before_(heap.may_page() ? SignalBlock::begin() : 0) {
    heap_.gate().enter();
    heap_.pager().follow_blocks();
  }
  ~InsideGate() {
    heap_.gate().leave();
    if (heap_.may_page()) SignalBlock::end(before_);
  }
  InsideGate(const InsideGate&) = delete;
  InsideGate& operator=(const InsideGate&) = delete;

 private:
  Heap& heap_;
  std::uint64_t before_;
};

// The process's heap.
Heap& heap();

}  // namespace terrace::liballoc
