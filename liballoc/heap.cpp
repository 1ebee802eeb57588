#include "liballoc/heap.h"

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
constexpr std::uint32_t discarded_at_once = 64;  // runs

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
  os::advise(blocks_, bytes, MADV_HUGEPAGE);
  int error = os::protect(base, arena_bytes, PROT_READ | PROT_WRITE);
  if (error == 0) error = space_.initialise(blocks_, bytes);
  if (error == 0) error = pager_.initialise(blocks_, bytes, &space_);
  if (error == 0) {
    pager_.use_lock(&lock_);
    register_fork_handlers();
    return 0;
  }
  os::unmap(base, span_);
  span_ = 0;
  base_ = 0;
  return error;
}

void* Heap::bootstrap_allocate(std::size_t bytes, std::size_t alignment) {
  QuietLockGuard guard(lock_, may_page());
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
  QuietLockGuard guard(lock_, may_page());
  const std::uint32_t id = space_.live_block_at(block);
  return id != 0 && (space_.block(id).hints & TERRACE_HINT_PINNED) == 0;
}

// Under the lock. Live blocks count in whole granules, as in the statistics.
bool Heap::fits_device(std::size_t more_bytes) const {
  const std::uint64_t live = pager_.live_bytes();
  return options_.device_bytes == 0 ||
         (live <= options_.device_bytes && more_bytes <= options_.device_bytes - live);
}

// Once: a framework that catches the error and tries again would fill the screen.
void Heap::report_full_device(std::size_t bytes) {
  {
    QuietLockGuard guard(lock_, may_page());
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

// Under the lock. 0: no memory.
std::uint32_t Heap::place(std::size_t bytes, std::size_t alignment) {
  const std::uint32_t id = space_.allocate(bytes, alignment);
  if (id == 0) return 0;
  const Block& b = space_.block(id);
  if (commit(b.first + b.granules)) return id;
  space_.free(id);
  return 0;
}

void Heap::wake_agent_if_needed() {
  if (pager_.wants_agent()) agent_.kick();
}

// Under the lock. Whether the block's addresses are handed out for the first time.
bool Heap::enter(std::uint32_t id, const void* call_site, bool zeroed, unsigned hints) {
  Block& b = space_.block(id);
  b.call_site = reinterpret_cast<std::uintptr_t>(call_site);
  b.hints = static_cast<std::uint8_t>(hints);
  const bool virgin = b.virgin;
  if (zeroed) pager_.mark_zero_fill(id);
  pager_.on_allocate(id);
  if (pager_.mode() == Pager::Mode::plain) {
    window_peak_[0] = std::max(window_peak_[0], pager_.data_runs());
  } else {
    wake_agent_if_needed();
  }
  return virgin;
}

void* Heap::allocate(std::size_t bytes, std::size_t alignment, const void* call_site, bool zeroed,
                     unsigned hints) {
  agent_.start_if_wanted(this);
  std::uint32_t id = 0;
  bool virgin = false;
  bool fits = true;
  {
    QuietLockGuard guard(lock_, may_page());
    fits = fits_device(bytes);
    id = fits ? place(bytes, alignment) : 0;
    if (id != 0) virgin = enter(id, call_site, zeroed, hints);
  }
  if (!fits) report_full_device(bytes);
  if (id == 0) return nullptr;
  if (zeroed) zero(id, bytes, virgin);
  return space_.address(id);
}

// Runs that are still empty come back zeroed at their first touch (mark_zero_fill);
// the others are cleared here.
void Heap::zero(std::uint32_t block, std::size_t bytes, bool virgin) {
  std::byte* const begin = space_.address(block);
  std::byte* const end = begin + bytes;
  for (std::byte* at = begin; at < end;) {
    const std::uint32_t n = pager_.run_of(at);
    std::byte* const next = std::min(end, pager_.run_address(n) + run_bytes);
    if (!pager_.reads_as_zero(n, virgin)) std::memset(at, 0, static_cast<std::size_t>(next - at));
    at = next;
  }
}

void Heap::bad_pointer(const void* block, const char* operation, const void* call_site) {
  Message(Severity::error)
      << operation << "(" << block << ") called from " << call_site
      << ": not the start of a live block of Terrace's heap (freed twice, or never allocated)";
  std::abort();
}

void Heap::release(void* block, const void* call_site) {
  if (is_bootstrap(block)) return;
  QuietLockGuard guard(lock_, may_page());
  const std::uint32_t id = space_.live_block_at(block);
  if (id == 0) bad_pointer(block, "free", call_site);
  pager_.on_free(id);
  space_.free(id);
  if (pager_.mode() == Pager::Mode::plain) {
    decay_recycled();
  } else {
    wake_agent_if_needed();
  }
}

// Without an agent nobody trims in the background: recycled memory beyond the highest need of the last two
// windows of ten seconds goes back to the kernel on the way through free().
void Heap::decay_recycled() {
  constexpr std::uint32_t always_kept = 32;
  if (pager_.recycled_runs() <= always_kept) return;
  const std::uint64_t now = os::now_ns();
  if (now - window_start_ns_ < decay_window_ns) return;
  const std::uint32_t needed = std::max(window_peak_[0], window_peak_[1]);
  const std::uint32_t live = pager_.data_runs();
  pager_.trim(std::max(always_kept, needed > live ? needed - live : 0));
  window_start_ns_ = now;
  window_peak_[1] = window_peak_[0];
  window_peak_[0] = live;
}

void* Heap::resize(void* block, std::size_t bytes, const void* call_site) {
  std::size_t old_bytes = 0;
  unsigned hints = 0;
  {
    QuietLockGuard guard(lock_, may_page());
    const std::uint32_t id = space_.live_block_at(block);
    if (id == 0) bad_pointer(block, "realloc", call_site);
    const Block before = space_.block(id);
    old_bytes = space_.capacity(id);
    hints = before.hints;
    if (bytes <= old_bytes && bytes > old_bytes / 2) return block;
    const bool may_grow = bytes > old_bytes && (hints & TERRACE_HINT_PINNED) == 0;
    if (may_grow && fits_device(bytes - old_bytes) && space_.grow(id, bytes)) {
      const Block after = space_.block(id);
      if (commit(after.first + after.granules)) {
        pager_.on_extend(id, before.first + before.granules, after.granules - before.granules);
        return block;
      }
      space_.shrink(id, old_bytes);
    }
  }
  void* moved = allocate(bytes, 0, call_site, false, hints);
  if (moved == nullptr) return nullptr;
  if ((hints & TERRACE_HINT_PINNED) != 0 && pin(moved, bytes) != 0) {
    release(moved, call_site);
    return nullptr;
  }
  std::memcpy(moved, block, std::min(bytes, old_bytes));
  release(block, call_site);
  return moved;
}

std::size_t Heap::usable_bytes(const void* block) {
  if (is_bootstrap(block)) {
    std::size_t bytes = 0;
    std::memcpy(&bytes, static_cast<const std::byte*>(block) - sizeof(bytes), sizeof(bytes));
    return bytes;
  }
  QuietLockGuard guard(lock_, may_page());
  const std::uint32_t id = space_.live_block_at(block);
  return id == 0 ? 0 : space_.capacity(id);
}

std::uint32_t Heap::runs_of_range(const void* address, std::size_t bytes, std::uint32_t* first,
                                  std::uint32_t* last) {
  if (!owns(address) || is_bootstrap(address) || bytes == 0) return 0;
  const std::uint32_t id = space_.live_block_covering(address);
  if (id == 0) return 0;
  const auto* at = static_cast<const std::byte*>(address);
  const std::byte* end = space_.address(id) + space_.capacity(id);
  if (bytes > static_cast<std::size_t>(end - at)) return 0;
  *first = pager_.run_of(at);
  *last = pager_.run_of(at + bytes - 1);
  return id;
}

int Heap::pin(const void* address, std::size_t bytes) {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  {
    QuietLockGuard guard(lock_, may_page());
    const std::uint32_t id = runs_of_range(address, bytes, &first, &last);
    if (id == 0) return EINVAL;
    if (!pager_.can_pin(first, last)) return ENOMEM;
    pager_.pin(first, last, id);
  }
  // What is there is not touched: the program may have taken its access away.
  const auto* const begin = static_cast<const std::byte*>(address);
  for (std::uint32_t n = first; n <= last; ++n) {
    const volatile std::byte* at = std::max<const std::byte*>(begin, pager_.run_address(n));
    if (!is_resident(n)) static_cast<void>(*at);
  }
  return 0;
}

bool Heap::is_resident(std::uint32_t run) {
  QuietLockGuard guard(lock_, may_page());
  return pager_.run(run).state == RunState::resident;
}

int Heap::unpin(const void* address, std::size_t bytes) {
  QuietLockGuard guard(lock_, may_page());
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  const std::uint32_t id = runs_of_range(address, bytes, &first, &last);
  if (id == 0) return EINVAL;
  pager_.unpin(first, last, id);
  return 0;
}

int Heap::note_lock(const void* address, std::size_t bytes) {
  const auto [begin, end] = pages_of(address, bytes);
  QuietLockGuard guard(lock_, may_page());
  return pager_.lock_pages(begin, end);
}

// Under one lock, or what another thread locks meanwhile would be taken to be unlocked.
int Heap::unlock(const void* address, std::size_t bytes) {
  QuietLockGuard guard(lock_, may_page());
  const int error = os::error_of(syscall(SYS_munlock, address, bytes));
  if (error != 0) return error;
  const auto [begin, end] = pages_of(address, bytes);
  const std::byte* const limit = blocks_ + committed_;
  pager_.unlock_pages(begin, std::min(end, limit));
  return 0;
}

void Heap::unlock_all() {
  QuietLockGuard guard(lock_, may_page());
  pager_.unlock_all_pages();
}

// Only whole runs inside the range: the neighbours in a shared run asked for nothing.
int Heap::advise(const void* address, std::size_t bytes, terrace_advice advice) {
  QuietLockGuard guard(lock_, may_page());
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  const std::uint32_t id = runs_of_range(address, bytes, &first, &last);
  if (id == 0) return EINVAL;
  if (pager_.mode() == Pager::Mode::plain) return ENOTSUP;
  if (pager_.run_address(first) < address) ++first;
  const auto* end = static_cast<const std::byte*>(address) + bytes;
  const bool to_block_end = end >= space_.address(id) + space_.capacity(id) - (granule_bytes - 1);
  if (pager_.run_address(last) + run_bytes > end && !(to_block_end && pager_.run(last).live == 1)) {
    if (last == 0) return 0;
    --last;
  }
  if (first > last || last == none) return 0;
  pager_.advise(first, last, advice);
  agent_.kick();
  return 0;
}

// Brings back a run of which only a part is discarded, and holds it: the rest must survive. What is there
// already is not read, since it may be protected.
bool Heap::hold_part(std::uint32_t n, const std::byte* inside) {
  {
    QuietLockGuard guard(lock_, may_page());
    if (pager_.run(n).live == 0) return false;
    pager_.pin(n, n, 0);
    if (pager_.run(n).state == RunState::resident) return true;
  }
  static_cast<void>(*static_cast<const volatile std::byte*>(inside));
  return true;
}

void Heap::let_go_of_part(std::uint32_t n) {
  QuietLockGuard guard(lock_, may_page());
  pager_.unpin(n, n, 0);
}

// Under one lock the kernel drops the pages and the pager forgets what is not there: a run that left or came
// back in between would keep what it had, or be taken for damaged. Nothing is forgotten that the kernel did
// not drop.
int Heap::discard_range(std::byte* begin, std::byte* end, int advice) {
  QuietLockGuard guard(lock_, may_page());
  const int error = os::advise(begin, static_cast<std::size_t>(end - begin), advice);
  pager_.expect_holes(pager_.run_of(begin), pager_.run_of(end - 1));
  const std::uint32_t first = pager_.run_of(begin + run_bytes - 1);
  const std::uint32_t past = pager_.run_of(end);
  if (error != 0 || first >= past) return error;
  pager_.forget(first, past - 1);
  if (advice == MADV_DONTNEED) pager_.forget_resident(first, past - 1);
  wake_agent_if_needed();
  return 0;
}

// In steps, so that the agent and other threads get the lock meanwhile. MADV_REMOVE is for shared memory.
int Heap::discard(void* address, std::size_t bytes, int advice) {
  auto* const begin = static_cast<std::byte*>(address);
  const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(address);
  if (advice == MADV_REMOVE || at % os::page_bytes != 0) return EINVAL;
  if (bytes > base_ + span_ - at) return ENOMEM;
  if (bytes == 0) return 0;
  std::byte* const end = begin + (bytes + os::page_bytes - 1) / os::page_bytes * os::page_bytes;
  const std::uint32_t head = pager_.run_of(begin);
  const std::uint32_t tail = pager_.run_of(end - 1);
  const bool holds_head = begin != pager_.run_address(head) && hold_part(head, begin);
  const bool holds_tail = end != pager_.run_address(tail) + run_bytes && hold_part(tail, end - 1);
  int error = 0;
  for (std::byte* from = begin; from < end && error == 0;) {
    std::byte* const to = std::min(end, pager_.run_address(pager_.run_of(from) + discarded_at_once));
    error = discard_range(from, to, advice);
    from = to;
  }
  if (holds_head) let_go_of_part(head);
  if (holds_tail) let_go_of_part(tail);
  return error;
}

std::size_t Heap::trim() {
  QuietLockGuard guard(lock_, may_page());
  return std::size_t{pager_.trim(0)} * run_bytes;
}

void Heap::statistics(terrace_statistics* out) {
  QuietLockGuard guard(lock_, may_page());
  pager_.fill(out);
}

}  // namespace terrace::liballoc
