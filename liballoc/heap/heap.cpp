#include "liballoc/heap/heap.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "liballoc/base/message.h"
#include "liballoc/base/os.h"
#include "liballoc/process/fork_handlers.h"

namespace terrace::liballoc {
namespace {

// What is cleared on the way through calloc; more is cheaper given back and touched anew.
constexpr std::size_t most_cleared = std::size_t{64} << 20;

// A union has no destructor of its own: the heap outlives everything, and a static object with a destructor
// would be torn down while other threads still free memory.
union Storage {
  Heap heap;
  constexpr Storage() : heap() {}
  ~Storage() {}
};
constinit Storage storage;

}  // namespace

Heap& heap() { return storage.heap; }

int Heap::initialise(const Options& options) {
  options_ = options;
  if (const int error = range_.reserve(); error != 0) return error;
  arena_.begin(range_.arena());
  std::byte* const blocks = range_.blocks();
  const std::size_t bytes = range_.block_bytes();
  int error = blocks_.initialise(blocks, bytes);
  if (error == 0) error = huge_pages_.initialise(blocks, bytes, !options_.may_page());
  if (error == 0)
    error = pager_.initialise(blocks, bytes, blocks_.space().most_records(), &blocks_.queue(), &free_runs_);
  if (error == 0)
    register_fork_handlers();
  else
    range_.release();
  return error;
}

void* Heap::bootstrap_allocate(std::size_t bytes, std::size_t alignment) {
  const LockGuard guard(blocks_.lock());
  return arena_.allocate(bytes, alignment);
}

bool Heap::may_overflow(const void* block) {
  if (device_.is_set()) return false;
  if (block == nullptr) return true;
  const LockGuard guard(blocks_.lock());
  const std::uint32_t id = blocks_.space().live_block_at(block);
  return id != 0 && (blocks_.space().block(id).hints & TERRACE_HINT_PINNED) == 0;
}

// Under the lock. id 0: no memory.
Heap::Placed Heap::place(std::size_t bytes, std::size_t alignment, const void* call_site, bool zeroed,
                         unsigned hints) {
  AddressSpace& space = blocks_.space();
  const std::uint32_t id = space.allocate(bytes, alignment);
  if (id == 0) return {};
  Block& b = space.block(id);
  if (!range_.commit(b.first + b.granules)) {
    space.free(id, b.virgin);
    return {};
  }
  b.call_site = reinterpret_cast<std::uintptr_t>(call_site);
  b.hints = static_cast<std::uint8_t>(hints);
  accounts_.block_came(b.virgin);
  recycled_.note_need();
  blocks_.note(BlockChange::allocated, id, b.first, b.granules, zeroed && b.virgin);
  return {.id = id,
          .granules = b.granules,
          .address = space.address(id),
          .virgin = b.virgin,
          .recorded = blocks_.is_recording(),
          .wakes = blocks_.passes_mark() || blocks_.is_worth_a_look()};
}

void* Heap::allocate(std::size_t bytes, std::size_t alignment, const void* call_site, bool zeroed,
                     unsigned hints) {
  agent_.start_if_wanted();
  Placed placed;
  blocks_.lock_with_room();
  const bool fits = device_.has_room(bytes);
  if (fits) placed = place(bytes, alignment, call_site, zeroed, hints);
  blocks_.lock().unlock();
  if (placed.wakes) waker_.kick();
  if (!fits) device_.report_full(bytes);
  if (placed.id == 0) return nullptr;
  if (placed.virgin && !placed.recorded)
    huge_pages_.prepare(placed.address, std::size_t{placed.granules} * granule_bytes);
  if (zeroed) zero(placed, bytes);
  return placed.address;
}

// Virgin memory is the kernel's zeroes. While the agent backs memory, it takes what was used before for a
// whole run, and clears it when it was told to; the parts of runs at either end it does not.
void Heap::zero(const Placed& placed, std::size_t bytes) {
  std::byte* const begin = placed.address;
  std::byte* const end = begin + bytes;
  if (!placed.virgin && bytes >= most_cleared) {
    discards_.discard(begin, std::size_t{placed.granules} * granule_bytes, MADV_DONTNEED);
  } else if (!placed.virgin) {
    std::memset(begin, 0, bytes);
  } else if (placed.recorded) {
    std::byte* const first =
        std::min(end, pager_.runs().heap().address(pager_.runs().heap().run_of(begin + run_bytes - 1)));
    std::byte* const last = std::max(first, pager_.runs().heap().address(pager_.runs().heap().run_of(end)));
    std::memset(begin, 0, static_cast<std::size_t>(first - begin));
    std::memset(last, 0, static_cast<std::size_t>(end - std::min(end, last)));
  }
}

void Heap::bad_pointer(const void* block, const char* operation, const void* call_site) {
  Message(Severity::error)
      << operation << "(" << block << ") called from " << call_site
      << ": not the start of a live block of Terrace's heap (freed twice, or never allocated)";
  std::abort();
}

// Whether something must happen before the block is free.
bool Heap::settles(std::uint32_t id) {
  const AddressSpace& space = blocks_.space();
  return (space.block(id).hints & (lent_hint | held_hint)) != 0 ||
         (!blocks_.is_recording() && huge_pages_.may_settle(space.address(id), space.capacity(id)));
}

// Its owner frees it, so nobody else uses it. Whether it has no memory any more.
bool Heap::settle(std::uint32_t id) {
  const unsigned hints = blocks_.space().block(id).hints;
  std::byte* const address = blocks_.space().address(id);
  const std::size_t bytes = blocks_.space().capacity(id);
  if ((hints & lent_hint) != 0) discards_.discard(address, bytes, MADV_DONTNEED);
  if ((hints & held_hint) != 0) {
    const InsideGate gate(guarded_);
    pager_.blocks().let_go(id);
  }
  return (hints & (lent_hint | held_hint)) == 0 && !blocks_.is_recording() &&
         huge_pages_.settle(address, bytes);
}

void Heap::release(void* block, const void* call_site) {
  if (is_bootstrap(block)) return;
  bool is_virgin = false;
  blocks_.lock_with_room();
  const std::uint32_t id = blocks_.space().live_block_at(block);
  if (id == 0) {
    blocks_.lock().unlock();
    bad_pointer(block, "free", call_site);
  }
  if (settles(id)) {
    blocks_.lock().unlock();
    is_virgin = settle(id);
    blocks_.lock_with_room();
  }
  blocks_.free(id, is_virgin);
  accounts_.block_went();
  const bool wakes = blocks_.is_worth_a_look();
  const bool decays = recycled_.may_decay();
  blocks_.lock().unlock();
  if (wakes) waker_.kick();
  if (decays) recycled_.decay();
}

// Under the lock. Whether the block grew where it is.
bool Heap::grow(std::uint32_t id, std::size_t bytes) {
  AddressSpace& space = blocks_.space();
  const Block before = space.block(id);
  const std::size_t old_bytes = space.capacity(id);
  if ((before.hints & (TERRACE_HINT_PINNED | lent_hint)) != 0 || !device_.has_room(bytes - old_bytes))
    return false;
  if (!space.grow(id, bytes)) return false;
  const Block& after = space.block(id);
  if (!range_.commit(after.first + after.granules)) {
    space.shrink(id, old_bytes);
    return false;
  }
  accounts_.block_grew();
  blocks_.note(BlockChange::grown, id, before.first + before.granules, after.granules - before.granules,
               false);
  return true;
}

void* Heap::resize(void* block, std::size_t bytes, const void* call_site) {
  blocks_.lock_with_room();
  const AddressSpace& space = blocks_.space();
  const std::uint32_t id = space.live_block_at(block);
  const std::size_t old_bytes = id != 0 ? space.capacity(id) : 0;
  const unsigned hints = id != 0 ? space.block(id).hints & ~lent_hint : 0;
  const bool fits = id != 0 && bytes <= old_bytes && bytes > old_bytes / 2;
  const bool grown = id != 0 && bytes > old_bytes && grow(id, bytes);
  blocks_.lock().unlock();
  if (id == 0) bad_pointer(block, "realloc", call_site);
  if (fits || grown) return block;
  void* moved = allocate(bytes, 0, call_site, false, hints);
  if (moved == nullptr) return nullptr;
  if ((hints & TERRACE_HINT_PINNED) != 0 && pins_.pin(moved, bytes) != 0) {
    release(moved, call_site);
    return nullptr;
  }
  move_content(block, moved, std::min(bytes, old_bytes));
  release(block, call_site);
  return moved;
}

// A piece at a time, each given back when it is copied, so that a large block does not take twice its memory.
void Heap::move_content(void* from, void* to, std::size_t bytes) {
  constexpr std::size_t piece = std::size_t{8} << 20;
  if (bytes < 4 * piece || device_.is_set()) {
    std::memcpy(to, from, bytes);
    return;
  }
  auto* const source = static_cast<std::byte*>(from);
  auto* const target = static_cast<std::byte*>(to);
  for (std::size_t at = 0; at < bytes; at += piece) {
    const std::size_t part = std::min(piece, bytes - at);
    std::memcpy(target + at, source + at, part);
    discards_.discard(source + at, part / os::page_bytes * os::page_bytes, MADV_DONTNEED);
  }
}

std::size_t Heap::usable_bytes(const void* block) {
  if (is_bootstrap(block)) return BootstrapArena::usable_bytes(block);
  const LockGuard guard(blocks_.lock());
  const std::uint32_t id = blocks_.space().live_block_at(block);
  return id == 0 ? 0 : blocks_.space().capacity(id);
}

std::size_t Heap::trim() {
  std::size_t given = 0;
  {
    const InsideGate gate(guarded_);
    if (pager_.is_paging()) given = std::size_t{pager_.trim(0)} * run_bytes;
  }
  return given + recycled_.trim();
}

}  // namespace terrace::liballoc
