// The heap of large allocations: blocks are handed out, grow, move and go.
//
// Heap ties together where blocks lie (blocks.h), what backs them (pager.h) and the thread that moves it
// (agent/agent.h). There is one heap in a process, in static storage without constructors or destructors: it
// must work before main and after exit.
//
// Two things are owned: the lock covers where blocks lie (blocks.h), the gate what backs them
// (guarded_pager.h). Nobody works or waits under the lock, and nobody waits for it inside the gate.
//
// What a program may ask of a block besides has a class each: pins(), locks(), discards(), advice().
#pragma once

#include <cstddef>
#include <cstdint>

#include "liballoc/agent/agent.h"
#include "liballoc/agent/waiting/waker.h"
#include "liballoc/base/options.h"
#include "liballoc/heap/accounts.h"
#include "liballoc/heap/advice.h"
#include "liballoc/heap/blocks.h"
#include "liballoc/heap/bootstrap_arena.h"
#include "liballoc/heap/device_limit.h"
#include "liballoc/heap/discards.h"
#include "liballoc/heap/guarded_pager.h"
#include "liballoc/heap/huge_pages.h"
#include "liballoc/heap/memory_locks.h"
#include "liballoc/heap/pins.h"
#include "liballoc/heap/recycled_memory.h"
#include "liballoc/heap/reserved_range.h"
#include "liballoc/heap/space/address_space.h"
#include "liballoc/paging/gate.h"
#include "liballoc/paging/memory/free_runs.h"
#include "liballoc/paging/pager.h"

namespace terrace::liballoc {

// One to a process: what its padding costs is nothing, so the fields stand by meaning.
class Heap {  // NOLINT(clang-analyzer-optin.performance.Padding)
 public:
  // Reserves the range and registers the fork handlers. 0 or errno; on failure nothing is owned.
  int initialise(const Options& options);
  bool ready() const { return range_.is_reserved(); }

  bool owns(const void* address) const { return range_.owns(address); }
  // Whether a block of the heap may lie there, and not the bootstrap arena.
  bool owns_block(const void* address) const { return owns(address) && !is_bootstrap(address); }
  std::uintptr_t base() const { return range_.base(); }
  std::size_t span() const { return range_.span(); }

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
  bool is_bootstrap(const void* address) const { return arena_.owns(address); }

  // Gives unused memory back to the kernel. Bytes given back.
  std::size_t trim();

  Pager& pager() { return pager_; }
  const GuardedPager& guarded() const { return guarded_; }
  Blocks& blocks() { return blocks_; }
  HeapAccounts& accounts() { return accounts_; }
  Waker& waker() { return waker_; }
  Agent& agent() { return agent_; }
  Pins& pins() { return pins_; }
  MemoryLocks& locks() { return locks_; }
  Discards& discards() { return discards_; }
  Advice& advice() { return advice_; }
  const Options& options() const { return options_; }

 private:
  // What allocate() did under the lock.
  struct Placed {
    std::uint32_t id = 0;
    std::uint32_t granules = 0;
    std::byte* address = nullptr;
    bool virgin = false;
    bool recorded = false;
    bool wakes = false;
  };

  Placed place(std::size_t bytes, std::size_t alignment, const void* call_site, bool zeroed, unsigned hints);
  bool grow(std::uint32_t id, std::size_t bytes);
  void zero(const Placed& placed, std::size_t bytes);
  bool settles(std::uint32_t id);
  bool settle(std::uint32_t id);
  void move_content(void* from, void* to, std::size_t bytes);
  [[noreturn]] static void bad_pointer(const void* block, const char* operation, const void* call_site);

  Options options_;
  ReservedRange range_;
  BootstrapArena arena_;
  HugePages huge_pages_;
  Gate gate_;
  Pager pager_;
  GuardedPager guarded_{pager_, gate_, options_};
  Waker waker_{pager_};
  Blocks blocks_{waker_};
  FreeRuns free_runs_{&blocks_.lock(), &blocks_.space()};
  RecycledMemory recycled_{blocks_};
  HeapAccounts accounts_{guarded_, blocks_};
  DeviceLimit device_{options_, blocks_};
  Agent agent_{guarded_, blocks_, recycled_, accounts_, huge_pages_, waker_};
  Pins pins_{guarded_, blocks_};
  MemoryLocks locks_{guarded_, blocks_, range_, agent_.availability(), waker_};
  Discards discards_{guarded_, range_, waker_};
  Advice advice_{guarded_, blocks_, agent_.take_over(), waker_};
};

// The process's heap.
Heap& heap();

}  // namespace terrace::liballoc
