#include "liballoc/heap/heap.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "liballoc/fork_handlers.h"
#include "liballoc/message.h"
#include "liballoc/os.h"
#include "liballoc/signal_guard.h"

namespace terrace::liballoc {
namespace {

constexpr std::size_t most_span = std::size_t{1} << 40;
constexpr std::size_t least_span = std::size_t{1} << 28;
constexpr std::uint64_t decay_window_ns = 10'000'000'000;
constexpr std::uint32_t always_recycled = 64U << 20 >> 14;     // granules
constexpr std::uint32_t given_back_at_once = 16U << 20 >> 14;  // granules
constexpr std::uint32_t discarded_at_once = 64;                // runs
// What is cleared on the way through calloc; more is cheaper given back and touched anew.
constexpr std::size_t most_cleared = std::size_t{64} << 20;
constexpr std::uint64_t full_queue_pause_ns = 50'000;

// A union has no destructor of its own: the heap outlives everything, and a static object with a destructor
// would be torn down while other threads still free memory.
union Storage {
  Heap heap;
  constexpr Storage() : heap() {}
  ~Storage() {}
};
constinit Storage storage;

// The pages on which the range lies, as mlock() and munlock() mean it.
struct Pages {
  const std::byte* begin;
  const std::byte* end;
};
Pages pages_of(const void* address, std::size_t bytes) {
  const auto* const at = static_cast<const std::byte*>(address);
  const std::size_t head = reinterpret_cast<std::uintptr_t>(address) % os::page_bytes;
  return {at - head, at - head + (head + bytes + os::page_bytes - 1) / os::page_bytes * os::page_bytes};
}

}  // namespace

Heap& heap() { return storage.heap; }

// At most half of what is allowed (ulimit -v, ulimit -d), as the rest of the program maps memory, too; and
// half as much again, as often as the kernel refuses.
bool Heap::reserve_range() {
  const std::uint64_t limit = os::mapping_limit();
  if (limit != UINT64_MAX) commit_step_ = limited_commit_bytes;
  const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(most_span, limit / 2));
  for (std::size_t span = most; span >= least_span; span /= 2) {
    span = span / run_bytes * run_bytes;
    auto* area = static_cast<std::byte*>(os::map_anonymous(span + run_bytes, PROT_NONE));
    if (area == nullptr) continue;
    const std::size_t head = (run_bytes - reinterpret_cast<std::uintptr_t>(area) % run_bytes) % run_bytes;
    base_ = reinterpret_cast<std::uintptr_t>(area) + head;
    span_ = span;
    return true;
  }
  return false;
}

int Heap::initialise(const Options& options) {
  options_ = options;
  if (!reserve_range()) return ENOMEM;
  auto* base = reinterpret_cast<std::byte*>(base_);  // NOLINT: the reserved range
  blocks_ = base + arena_bytes;
  const std::size_t bytes = span_ - arena_bytes;
  int error = os::protect(base, arena_bytes, PROT_READ | PROT_WRITE);
  if (error == 0) error = space_.initialise(blocks_, bytes);
  if (error == 0) error = queue_.initialise();
  if (error == 0) error = huge_pages_.initialise(blocks_, bytes, !may_page());
  if (error == 0) error = pager_.initialise(blocks_, bytes, space_.most_records(), &queue_, &free_runs_);
  if (error == 0) {
    register_fork_handlers();
    return 0;
  }
  os::unmap(base, span_);
  span_ = 0;
  base_ = 0;
  return error;
}

void* Heap::bootstrap_allocate(std::size_t bytes, std::size_t alignment) {
  LockGuard guard(lock_);
  const std::size_t align = std::max<std::size_t>(alignment, 16);
  const std::size_t start = (arena_used_ + 16 + align - 1) / align * align;
  if (bytes > arena_bytes || start + bytes > arena_bytes) return nullptr;
  arena_used_ = start + bytes;
  auto* block = reinterpret_cast<std::byte*>(base_ + start);  // NOLINT
  std::memcpy(block - sizeof(bytes), &bytes, sizeof(bytes));
  return block;
}

// The range is reserved without access; what blocks reach becomes writable in large steps, or else, where
// that is more than is allowed (ulimit -d), in the smallest.
bool Heap::commit(std::uint32_t top_granule) {
  const std::size_t needed = std::size_t{top_granule} * granule_bytes;
  if (needed <= committed_) return true;
  const std::size_t limit = span_ - arena_bytes;
  for (const std::size_t step : {commit_step_, run_bytes}) {
    const std::size_t wanted = std::min((needed + step - 1) / step * step, limit);
    if (os::protect(blocks_ + committed_, wanted - committed_, PROT_READ | PROT_WRITE) != 0) continue;
    committed_ = wanted;
    return true;
  }
  return false;
}

bool Heap::may_overflow(const void* block) {
  if (options_.device_bytes != 0) return false;
  if (block == nullptr) return true;
  LockGuard guard(lock_);
  const std::uint32_t id = space_.live_block_at(block);
  return id != 0 && (space_.block(id).hints & TERRACE_HINT_PINNED) == 0;
}

// Under the lock. Live blocks count in whole granules, as in the statistics.
bool Heap::fits_device(std::size_t more_bytes) const {
  const std::uint64_t live = std::uint64_t{space_.live_granules()} * granule_bytes;
  return options_.device_bytes == 0 ||
         (live <= options_.device_bytes && more_bytes <= options_.device_bytes - live);
}

// Once: a framework that catches the error and tries again would fill the screen.
void Heap::report_full_device(std::size_t bytes) {
  {
    LockGuard guard(lock_);
    if (full_device_reported_) return;
    full_device_reported_ = true;
  }
  Message m(Severity::warning);
  m << "the emulated GPU of ";
  m.bytes(options_.device_bytes) << " is full: a request of ";
  m.bytes(bytes)
      << " is refused with ENOMEM, as others may be; offload more of the job (--offload-min), or give "
         "the GPU more memory (--gpu)";
}

std::uint32_t Heap::spread_granules() const { return space_.live_granules() + space_.recycled_granules(); }

// With room for a note in the queue, so that what is begun under the lock can be told.
void Heap::lock_with_room() {
  lock_.lock();
  while (recording_ && !queue_.has_room()) {
    lock_.unlock();
    agent_.kick();
    constexpr std::uint32_t never = 0;
    os::futex_wait_for(&never, 0, full_queue_pause_ns);
    lock_.lock();
  }
}

// Under the lock.
void Heap::note(BlockChange change, std::uint32_t id, std::uint32_t first, std::uint32_t granules,
                bool zeroed) {
  const Block& b = space_.block(id);
  if (!recording_ || b.first >= recorded_below_) return;
  queue_.push({.call_site = b.call_site,
               .block = id,
               .first = first,
               .granules = granules,
               .change = change,
               .hints = b.hints,
               .zeroed = zeroed});
}

// Under the lock. id 0: no memory.
Heap::Placed Heap::place(std::size_t bytes, std::size_t alignment, const void* call_site, bool zeroed,
                         unsigned hints) {
  const std::uint32_t id = space_.allocate(bytes, alignment);
  if (id == 0) return {};
  Block& b = space_.block(id);
  if (!commit(b.first + b.granules)) {
    space_.free(id, b.virgin);
    return {};
  }
  b.call_site = reinterpret_cast<std::uintptr_t>(call_site);
  b.hints = static_cast<std::uint8_t>(hints);
  ++allocations_;
  recycled_allocations_ += b.virgin ? 0 : 1;
  peak_granules_ = std::max(peak_granules_, space_.live_granules());
  peak_spread_ = std::max(peak_spread_, spread_granules());
  window_peak_[0] = std::max(window_peak_[0], space_.live_granules());
  note(BlockChange::allocated, id, b.first, b.granules, zeroed && b.virgin);
  const bool is_spread = !recording_ && spread_granules() > wake_at_.load(std::memory_order_relaxed);
  if (is_spread) wake_at_.store(~0U);
  return {.id = id,
          .granules = b.granules,
          .address = space_.address(id),
          .virgin = b.virgin,
          .recorded = recording_,
          .wakes = is_spread || (recording_ && queue_.is_worth_a_look(look_after_granules))};
}

void* Heap::allocate(std::size_t bytes, std::size_t alignment, const void* call_site, bool zeroed,
                     unsigned hints) {
  agent_.start_if_wanted(this);
  Placed placed;
  lock_with_room();
  const bool fits = fits_device(bytes);
  if (fits) placed = place(bytes, alignment, call_site, zeroed, hints);
  lock_.unlock();
  wake(placed.wakes);
  if (!fits) report_full_device(bytes);
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
    discard(begin, std::size_t{placed.granules} * granule_bytes, MADV_DONTNEED);
  } else if (!placed.virgin) {
    std::memset(begin, 0, bytes);
  } else if (placed.recorded) {
    std::byte* const first = std::min(end, pager_.run_address(pager_.run_of(begin + run_bytes - 1)));
    std::byte* const last = std::max(first, pager_.run_address(pager_.run_of(end)));
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

// What must happen before the block is free; its owner frees it, so nobody else uses it. Whether it has no
// memory any more.
bool Heap::settle(std::uint32_t id) {
  const unsigned hints = space_.block(id).hints;
  std::byte* const address = space_.address(id);
  const std::size_t bytes = space_.capacity(id);
  if ((hints & lent_hint) != 0) discard(address, bytes, MADV_DONTNEED);
  if ((hints & held_hint) != 0) {
    InsideGate gate(*this);
    pager_.let_go_of_block(id);
  }
  return (hints & (lent_hint | held_hint)) == 0 && !recording_ && huge_pages_.settle(address, bytes);
}

void Heap::release(void* block, const void* call_site) {
  if (is_bootstrap(block)) return;
  bool is_virgin = false;
  lock_with_room();
  const std::uint32_t id = space_.live_block_at(block);
  if (id == 0) {
    lock_.unlock();
    bad_pointer(block, "free", call_site);
  }
  const bool settles = (space_.block(id).hints & (lent_hint | held_hint)) != 0 ||
                       (!recording_ && huge_pages_.may_settle(space_.address(id), space_.capacity(id)));
  if (settles) {
    lock_.unlock();
    is_virgin = settle(id);
    lock_with_room();
  }
  const Block& b = space_.block(id);
  note(BlockChange::freed, id, b.first, b.granules, false);
  space_.free(id, is_virgin && !recording_);
  ++frees_;
  const bool wakes = recording_ && queue_.is_worth_a_look(look_after_granules);
  const bool decays = !recording_ && space_.recycled_granules() > always_recycled;
  lock_.unlock();
  wake(wakes);
  if (decays) decay_recycled();
}

// Without an agent at work nobody trims in the background: recycled memory well beyond the highest need of
// the last two windows of ten seconds goes back to the kernel on the way through free(), some with each.
void Heap::decay_recycled() {
  const std::uint64_t now = os::now_ns();
  std::uint32_t keep = 0;
  {
    LockGuard guard(lock_);
    const std::uint32_t live = space_.live_granules();
    const std::uint32_t needed = std::max(window_peak_[0], window_peak_[1]);
    keep = always_recycled + (needed > live ? needed - live : 0);
    if (now - window_start_ns_ >= decay_window_ns) {
      window_start_ns_ = now;
      window_peak_[1] = window_peak_[0];
      window_peak_[0] = live;
    }
    if (recording_ || space_.recycled_granules() <= keep) return;
  }
  give_back_recycled(given_back_at_once);
}

// Claimed meanwhile, so that nobody is given it.
bool Heap::give_back_recycled(std::uint32_t most_granules) {
  std::uint32_t id = 0;
  std::byte* address = nullptr;
  std::size_t bytes = 0;
  {
    LockGuard guard(lock_);
    if (!recording_) id = space_.claim_recycled(most_granules);
    if (id == 0) return false;
    address = space_.address(id);
    bytes = space_.capacity(id);
  }
  const bool is_virgin = os::advise(address, bytes, MADV_DONTNEED) == 0;
  LockGuard guard(lock_);
  // The agent may have begun to record, and then it knows a block here.
  note(BlockChange::freed, id, space_.block(id).first, space_.block(id).granules, false);
  space_.free(id, is_virgin && !recording_);
  return is_virgin;
}

// Under the lock. Whether the block grew where it is.
bool Heap::grow(std::uint32_t id, std::size_t bytes) {
  const Block before = space_.block(id);
  const std::size_t old_bytes = space_.capacity(id);
  if ((before.hints & (TERRACE_HINT_PINNED | lent_hint)) != 0 || !fits_device(bytes - old_bytes))
    return false;
  if (!space_.grow(id, bytes)) return false;
  const Block& after = space_.block(id);
  if (!commit(after.first + after.granules)) {
    space_.shrink(id, old_bytes);
    return false;
  }
  peak_granules_ = std::max(peak_granules_, space_.live_granules());
  note(BlockChange::grown, id, before.first + before.granules, after.granules - before.granules, false);
  return true;
}

void* Heap::resize(void* block, std::size_t bytes, const void* call_site) {
  lock_with_room();
  const std::uint32_t id = space_.live_block_at(block);
  const std::size_t old_bytes = id != 0 ? space_.capacity(id) : 0;
  const unsigned hints = id != 0 ? space_.block(id).hints & ~lent_hint : 0;
  const bool fits = id != 0 && bytes <= old_bytes && bytes > old_bytes / 2;
  const bool grown = id != 0 && bytes > old_bytes && grow(id, bytes);
  lock_.unlock();
  if (id == 0) bad_pointer(block, "realloc", call_site);
  if (fits || grown) return block;
  void* moved = allocate(bytes, 0, call_site, false, hints);
  if (moved == nullptr) return nullptr;
  if ((hints & TERRACE_HINT_PINNED) != 0 && pin(moved, bytes) != 0) {
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
  if (bytes < 4 * piece || options_.device_bytes != 0) {
    std::memcpy(to, from, bytes);
    return;
  }
  auto* const source = static_cast<std::byte*>(from);
  auto* const target = static_cast<std::byte*>(to);
  for (std::size_t at = 0; at < bytes; at += piece) {
    const std::size_t part = std::min(piece, bytes - at);
    std::memcpy(target + at, source + at, part);
    discard(source + at, part / os::page_bytes * os::page_bytes, MADV_DONTNEED);
  }
}

std::size_t Heap::usable_bytes(const void* block) {
  if (is_bootstrap(block)) {
    std::size_t bytes = 0;
    std::memcpy(&bytes, static_cast<const std::byte*>(block) - sizeof(bytes), sizeof(bytes));
    return bytes;
  }
  LockGuard guard(lock_);
  const std::uint32_t id = space_.live_block_at(block);
  return id == 0 ? 0 : space_.capacity(id);
}

std::uint32_t Heap::runs_of_range(const void* address, std::size_t bytes, std::uint32_t* first,
                                  std::uint32_t* last) {
  if (!owns(address) || is_bootstrap(address) || bytes == 0) return 0;
  LockGuard guard(lock_);
  const std::uint32_t id = space_.live_block_covering(address);
  if (id == 0) return 0;
  const auto* at = static_cast<const std::byte*>(address);
  const std::byte* end = space_.address(id) + space_.capacity(id);
  if (bytes > static_cast<std::size_t>(end - at)) return 0;
  *first = pager_.run_of(at);
  *last = pager_.run_of(at + bytes - 1);
  return id;
}

// ---- recording ------------------------------------------------------------------------------------------

// Some at a time, so that nobody waits long for the lock: those that were passed by send notes, those ahead
// are found as they are by then.
void Heap::begin_recording() {
  constexpr unsigned extents_at_once = 1024;
  huge_pages_.switch_off();
  recorded_below_ = 0;
  for (bool done = false; !done;) {
    LockGuard guard(lock_);
    recording_ = true;
    std::uint32_t at = space_.extent_start(recorded_below_);
    if (at < recorded_below_) at = space_.extent_end(at);
    for (unsigned i = 0; i < extents_at_once && at < space_.top(); ++i, at = space_.extent_end(at)) {
      const std::uint32_t id = space_.id_at(at);
      const Block& b = space_.block(id);
      if (b.state == BlockState::live)
        pager_.learn_block(
            id, {.call_site = b.call_site, .first = b.first, .granules = b.granules, .hints = b.hints});
    }
    done = at >= space_.top();
    recorded_below_ = done ? ~0U : at;
  }
}

void Heap::tell_top() {
  LockGuard guard(lock_);
  pager_.know_top(space_.top());
}

// ---- what is rare -----------------------------------------------------------------------------------------

int Heap::pin(const void* address, std::size_t bytes) {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  const std::uint32_t id = runs_of_range(address, bytes, &first, &last);
  if (id == 0) return EINVAL;
  const KnownBlock block = hold_block(id);
  {
    InsideGate gate(*this);
    if (!pager_.can_pin(first, last)) return ENOMEM;
    if (!pager_.is_paging()) pager_.know_block(id, block);
    pager_.pin(first, last, id);
  }
  // What is there is not touched: the program may have taken its access away. Nor is what was never written.
  for (std::uint32_t n = first; n <= last; ++n) {
    const PageSet away = pages_away(n);
    for (PageRange range = away.next(0); range.count() > 0; range = away.next(range.end))
      for (std::uint32_t page = range.first; page < range.end; ++page)
        static_cast<void>(*static_cast<const volatile std::byte*>(pager_.run_address(n) +
                                                                  std::size_t{page} * os::page_bytes));
  }
  return 0;
}

// Of a run, what is not under its address.
PageSet Heap::pages_away(std::uint32_t run) {
  InsideGate gate(*this);
  return pager_.is_paging() ? pager_.pages_away(run) : PageSet{};
}

int Heap::lend(const void* address, std::size_t bytes) {
  {
    LockGuard guard(lock_);
    const std::uint32_t id = is_bootstrap(address) ? 0 : space_.live_block_covering(address);
    if (id != 0) space_.block(id).hints |= lent_hint;
  }
  return pin(address, bytes);
}

// While the pager is not told of blocks, it must be told of this one, and of its end.
KnownBlock Heap::hold_block(std::uint32_t id) {
  LockGuard guard(lock_);
  Block& b = space_.block(id);
  b.hints |= held_hint;
  return {.call_site = b.call_site, .first = b.first, .granules = b.granules, .hints = b.hints};
}

int Heap::unpin(const void* address, std::size_t bytes) {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  const std::uint32_t id = runs_of_range(address, bytes, &first, &last);
  if (id == 0) return EINVAL;
  InsideGate gate(*this);
  pager_.unpin(first, last, id);
  return 0;
}

int Heap::note_lock(const void* address, std::size_t bytes) {
  const auto [begin, end] = pages_of(address, bytes);
  InsideGate gate(*this);
  return pager_.lock_pages(begin, end);
}

// Inside one gate, or what another thread locks meanwhile would be taken to be unlocked.
int Heap::unlock(const void* address, std::size_t bytes) {
  InsideGate gate(*this);
  const int error = os::error_of(syscall(SYS_munlock, address, bytes));
  if (error != 0) return error;
  const auto [begin, end] = pages_of(address, bytes);
  const std::byte* const limit = blocks_ + committed_;
  pager_.unlock_pages(begin, std::min(end, limit));
  return 0;
}

// Pages that the kernel locks can be neither moved nor dropped, and a pager's addresses and frames are far
// more than its memory: a kernel that fills what it locks would never come to an end. So the pager holds what
// is in its range, which the kernel does not lock, and with MCL_ONFAULT the rest of the program is locked
// page by page as it is touched.
int Heap::lock_everything(int flags) {
  bool was_evicting = false;
  {
    InsideGate gate(*this);
    was_evicting = pager_.evicts();
    pager_.stop_evicting();
    const int error = os::error_of(syscall(SYS_mlockall, flags | MCL_ONFAULT));
    if (error != 0) {
      if (was_evicting) pager_.resume_evicting();
      return error;
    }
    pager_.unlock_memory();
  }
  if (was_evicting && agent_.pager_state()[0] != 'u') {
    Message(Severity::warning) << "mlockall: what is in DRAM stays there, so paging stops until munlockall, "
                                  "over the budget if need be";
  }
  return 0;
}

int Heap::unlock_everything() {
  const int error = os::error_of(syscall(SYS_munlockall));
  if (error != 0 || !ready()) return error;
  {
    InsideGate gate(*this);
    pager_.unlock_all_pages(space_.top());
    if (!pager_.evicts()) pager_.resume_evicting();
  }
  agent_.kick();
  return 0;
}

// Only whole runs inside the range: the neighbours in a shared run asked for nothing.
int Heap::advise(const void* address, std::size_t bytes, terrace_advice advice) {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  const std::uint32_t id = runs_of_range(address, bytes, &first, &last);
  if (id == 0) return EINVAL;
  if (!agent_.ensure_paging()) return ENOTSUP;
  {
    InsideGate gate(*this);
    const std::byte* const block_end = pager_.block_end(id);
    if (pager_.run_address(first) < address) ++first;
    const auto* end = static_cast<const std::byte*>(address) + bytes;
    const bool to_block_end = end >= block_end - (granule_bytes - 1);
    if (pager_.run_address(last) + run_bytes > end && !(to_block_end && pager_.run(last).live == 1)) {
      if (last == 0) return 0;
      --last;
    }
    if (first > last || last == none) return 0;
    pager_.advise(first, last, advice);
  }
  agent_.kick();
  return 0;
}

// Inside one gate the kernel drops the pages and the pager forgets what lies elsewhere: what left or came
// back in between would keep what it had, or be taken for damaged. Nothing is forgotten that the kernel did
// not drop.
int Heap::discard_range(std::byte* begin, std::byte* end, int advice) {
  InsideGate gate(*this);
  const int error = os::advise(begin, static_cast<std::size_t>(end - begin), advice);
  if (error == 0 && pager_.is_paging()) pager_.forget(begin, end);
  return error;
}

// In steps, so that the agent and other threads get in meanwhile. MADV_REMOVE is for shared memory. What is
// freed lazily (MADV_FREE) may vanish from a frame, or from under the agent's eyes, so it is dropped at once,
// which the program must expect of it anyway.
int Heap::discard(void* address, std::size_t bytes, int advice) {
  auto* const begin = static_cast<std::byte*>(address);
  const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(address);
  if (advice == MADV_REMOVE || at % os::page_bytes != 0) return EINVAL;
  if (bytes > base_ + span_ - at) return ENOMEM;
  if (bytes == 0) return 0;
  if (advice == MADV_FREE && may_page()) advice = MADV_DONTNEED;
  std::byte* const end = begin + (bytes + os::page_bytes - 1) / os::page_bytes * os::page_bytes;
  int error = 0;
  for (std::byte* from = begin; from < end && error == 0;) {
    std::byte* const to = std::min(end, pager_.run_address(pager_.run_of(from) + discarded_at_once));
    error = discard_range(from, to, advice);
    from = to;
  }
  agent_.kick();
  return error;
}

std::size_t Heap::trim() {
  std::size_t given = 0;
  {
    InsideGate gate(*this);
    if (pager_.is_paging()) given = std::size_t{pager_.trim(0)} * run_bytes;
  }
  return given + trim_dormant();
}

std::size_t Heap::trim_dormant() {
  const std::uint32_t before = space_.recycled_granules();
  if (recording_) return 0;
  while (give_back_recycled(~0U)) continue;
  return std::size_t{before - std::min(before, space_.recycled_granules())} * granule_bytes;
}

void Heap::statistics(terrace_statistics* out) {
  {
    InsideGate gate(*this);
    pager_.fill(out);
  }
  LockGuard guard(lock_);
  add_counts(out);
}

void Heap::fill_statistics(terrace_statistics* out) {
  pager_.fill(out);
  if (!lock_.try_lock_for_a_while()) return;  // those of the blocks come with the next
  add_counts(out);
  lock_.unlock();
}

// What the pager does not count while memory is the kernel's: no more than was handed out.
void Heap::add_counts(terrace_statistics* out) const {
  const auto bytes = [](std::uint32_t granules) { return std::uint64_t{granules} * granule_bytes; };
  out->allocations = allocations_;
  out->frees = frees_;
  out->recycled_allocations = recycled_allocations_;
  out->heap_live_bytes = bytes(space_.live_granules());
  out->heap_peak_bytes = bytes(peak_granules_);
  if (pager_.is_paging()) return;
  if (pager_.mode() == Pager::Mode::plain) {
    out->resident_bytes = bytes(spread_granules());
    out->resident_peak_bytes = bytes(peak_spread_);
  }
  out->recycled_bytes = std::min(out->resident_bytes, bytes(space_.recycled_granules()));
}

}  // namespace terrace::liballoc
