// The heap of large allocations: one reserved range of addresses, owned by compare.
//
// Heap ties together where blocks lie (address_space.h), what backs them (pager.h) and the thread that moves
// it (agent.h), under one lock. There is one heap in a process, in static storage without constructors or
// destructors: it must work before main and after exit.
//
//   [base, base + arena)      bootstrap arena: what libc asks for while the next allocator is being looked up
//   [blocks, base + span)     blocks, 2 MiB runs
#pragma once

#include <cstddef>
#include <cstdint>

#include "liballoc/address_space.h"
#include "liballoc/agent.h"
#include "liballoc/lock.h"
#include "liballoc/options.h"
#include "liballoc/pager.h"

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
  // After mlock() of pages of ours that are pinned now: they stay until munlock(). ENOMEM: that cannot be
  // noted.
  int note_lock(const void* address, std::size_t bytes);
  // munlock() of a range of ours. 0 or the errno of the kernel's.
  int unlock(const void* address, std::size_t bytes);
  void unlock_all();
  int advise(const void* address, std::size_t bytes, terrace_advice advice);
  // The program drops the content of a range of ours (MADV_DONTNEED and its like, munmap): what was evicted
  // of it comes back as zeroes. 0 or the errno of the kernel's madvise, EINVAL for MADV_REMOVE and for an
  // address inside a page; what was evicted is forgotten only where the kernel dropped what was not.
  int discard(void* address, std::size_t bytes, int advice);
  std::size_t trim();
  void statistics(terrace_statistics* out);

  Lock& lock() { return lock_; }
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

  bool reserve_range();
  bool fits_device(std::size_t more_bytes) const;
  void report_full_device(std::size_t bytes);
  std::uint32_t place(std::size_t bytes, std::size_t alignment);
  bool enter(std::uint32_t id, const void* call_site, bool zeroed, unsigned hints);
  bool commit(std::uint32_t top_granule);
  bool hold_part(std::uint32_t n, const std::byte* inside);
  void let_go_of_part(std::uint32_t n);
  int discard_range(std::byte* begin, std::byte* end, int advice);
  void zero(std::uint32_t block, std::size_t bytes, bool virgin);
  void wake_agent_if_needed();
  void decay_recycled();
  bool is_resident(std::uint32_t run);
  [[noreturn]] void bad_pointer(const void* block, const char* operation, const void* call_site);

  std::uintptr_t base_ = 0;
  std::size_t span_ = 0;
  std::byte* blocks_ = nullptr;
  std::size_t committed_ = 0;
  std::size_t commit_step_ = commit_bytes;
  std::size_t arena_used_ = 0;
  std::uint64_t window_start_ns_ = 0;
  std::uint32_t window_peak_[2] = {};
  bool full_device_reported_ = false;
  Lock lock_;
  AddressSpace space_;
  Pager pager_;
  Agent agent_;
  Options options_;
};

// The process's heap.
Heap& heap();

}  // namespace terrace::liballoc
