// libterrace_preload.so: the malloc family.
//
// Requests under the threshold go to the next allocator by one compare and one indirect jump; larger ones
// live in Terrace's heap. A pointer is ours if it lies in the heap's range, again one compare. Everything
// starts in "not started" values that need no test on these paths: threshold_bytes is 0, so the first request
// takes the slow path, which brings the heap up and sets it; base and span are 0, so no pointer is ours; and
// the pointers to the next allocator lead to functions that start everything first.
//
// While the next allocator is being looked up, and in a forked child before all handlers have run, small
// requests come from the heap's bootstrap arena, which is inside the owned range.
#include <dlfcn.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "liballoc/base/message.h"
#include "liballoc/base/os.h"
#include "liballoc/heap/heap.h"
#include "liballoc/preload/next_allocator.h"
#include "liballoc/process/fork_handlers.h"
#include "liballoc/process/startup.h"

namespace terrace::liballoc {
namespace {

constinit std::size_t threshold_bytes = 0;
constinit std::uintptr_t owned_base = 0;
constinit std::size_t owned_span = 0;
constinit bool next_is_known = false;
extern constinit NextAllocator next;

[[gnu::always_inline]] inline bool is_ours(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p) - owned_base < owned_span;
}

template <typename Function>
bool look_up(const char* name, Function* out) {
  void* symbol = dlsym(RTLD_NEXT, name);
  std::memcpy(out, &symbol, sizeof(symbol));
  return symbol != nullptr;
}

void* arena(std::size_t bytes, std::size_t alignment) {
  void* block = heap().ready() ? heap().bootstrap_allocate(bytes, alignment) : nullptr;
  if (block == nullptr) errno = ENOMEM;
  return block;
}

// The child's handler runs before those of the next allocator may have: no small request may reach it.
void divert_small_requests(bool divert) {
  static constinit std::size_t saved = 0;
  if (divert) saved = threshold_bytes;
  threshold_bytes = divert ? 0 : saved;
}

// Runs once, in the first caller. The arena must exist before dlsym is asked, as dlsym may call calloc.
void start() {
  const bool usable = ensure_started();
  if (starting_in_this_thread()) return;
  if (usable) {
    owned_base = heap().base();
    owned_span = heap().span();
  }
  static constinit Lock lookup_lock;
  static constinit bool looking_up = false;
  if (looking_up) return;  // dlsym's own request, in the same thread: the arena serves it
  LockGuard guard(lookup_lock);
  if (next_is_known) return;
  looking_up = true;
  NextAllocator found{};
  if (!find_next_allocator(&found)) __builtin_trap();
  looking_up = false;
  next = found;
  next_is_known = true;
  set_child_handler_hook(&divert_small_requests);
  __atomic_store_n(&threshold_bytes, usable ? heap().options().threshold_bytes : SIZE_MAX, __ATOMIC_RELEASE);
}

// Where a small request goes when the fast path cannot tell.
bool use_arena() {
  if (!next_is_known) start();
  return !next_is_known || in_fork_child_handler();
}

void* from_next(std::size_t bytes, std::size_t alignment, bool zeroed) {
  if (alignment > alignof(std::max_align_t)) {
    void* block = next.memalign(alignment, bytes);
    if (block != nullptr && zeroed) std::memset(block, 0, bytes);
    return block;
  }
  return zeroed ? next.calloc(1, bytes) : next.malloc(bytes);
}

// The heap has no room, or may have no more memory (ulimit -d), for a new block or for more of `old`.
[[gnu::noinline]] void* overflow(const void* old, std::size_t bytes, std::size_t alignment, bool zeroed) {
  static constinit std::atomic<bool> told{false};
  void* block = heap().may_overflow(old) ? from_next(bytes, alignment, zeroed) : nullptr;
  if (block == nullptr) {
    errno = ENOMEM;
  } else if (heap().options().may_page() && !told.exchange(true)) {
    Message m(Severity::warning);
    m << "the heap of ";
    m.bytes(heap().span()) << " has no room for ";
    m.bytes(bytes) << " (ulimit -v, ulimit -d?): such allocations become plain memory, beyond the budget";
  }
  return block;
}

[[gnu::noinline]] void* large(std::size_t bytes, std::size_t alignment, bool zeroed, const void* call_site) {
  if (threshold_bytes == 0 && !in_fork_child_handler()) start();
  if (bytes > PTRDIFF_MAX) {
    errno = ENOMEM;
    return nullptr;
  }
  if (bytes >= threshold_bytes && next_is_known && !in_fork_child_handler()) {
    void* block = heap().allocate(bytes, alignment, call_site, zeroed);
    return block != nullptr ? block : overflow(nullptr, bytes, alignment, zeroed);
  }
  if (use_arena()) {
    void* block = arena(bytes, alignment);
    if (block != nullptr && zeroed) std::memset(block, 0, bytes);
    return block;
  }
  return from_next(bytes, alignment, zeroed);
}

bool is_power_of_two(std::size_t value) { return value != 0 && (value & (value - 1)) == 0; }

// glibc's memalign and aligned_alloc round an odd alignment up; absurd ones are left for the heap to refuse.
std::size_t rounded_alignment(std::size_t alignment) {
  return alignment > PTRDIFF_MAX / 2 ? alignment : std::bit_ceil(std::max<std::size_t>(alignment, 1));
}

// A block that crosses the threshold in realloc changes allocators: allocate there, copy, release here.
void* move_from_next(void* block, std::size_t bytes, const void* call_site) {
  void* moved = large(bytes, 0, false, call_site);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, block, std::min(bytes, next.malloc_usable_size(block)));
  next.free(block);
  return moved;
}

void* take_over(void* block, void* moved, std::size_t bytes, const void* call_site) {
  std::memcpy(moved, block, std::min(bytes, heap().usable_bytes(block)));
  heap().release(block, call_site);
  return moved;
}

void* resize_owned(void* block, std::size_t bytes, const void* call_site) {
  if (bytes >= threshold_bytes && !heap().is_bootstrap(block)) {
    if (void* moved = heap().resize(block, bytes, call_site); moved != nullptr) return moved;
    void* moved = overflow(block, bytes, 0, false);
    return moved == nullptr ? nullptr : take_over(block, moved, bytes, call_site);
  }
  void* moved =
      bytes < threshold_bytes && !use_arena() ? next.malloc(bytes) : large(bytes, 0, false, call_site);
  return moved == nullptr ? nullptr : take_over(block, moved, bytes, call_site);
}

[[gnu::always_inline]] inline bool is_small(std::size_t bytes) { return bytes < threshold_bytes; }

// Before the start: each request starts everything and goes round again. Requests of the start itself (dlsym
// asking for memory) find the next allocator still unknown and are served by large() from the arena.
constinit NextAllocator next{
    .malloc = [](std::size_t bytes) { return large(bytes, 0, false, nullptr); },
    .calloc = [](std::size_t count, std::size_t size) { return large(count * size, 0, true, nullptr); },
    .realloc =
        [](void* block, std::size_t bytes) {
          start();
          return block == nullptr || !next_is_known ? large(bytes, 0, false, nullptr)
                                                    : next.realloc(block, bytes);
        },
    .free =
        [](void* block) {
          if (block == nullptr) return;
          start();
          if (next_is_known) next.free(block);
        },
    .posix_memalign = nullptr,
    .aligned_alloc = nullptr,
    .memalign = nullptr,
    .valloc = nullptr,
    .pvalloc = nullptr,
    .malloc_usable_size = nullptr,
};

}  // namespace

bool find_next_allocator(NextAllocator* n) {
  return look_up("malloc", &n->malloc) && look_up("calloc", &n->calloc) && look_up("realloc", &n->realloc) &&
         look_up("free", &n->free) && look_up("posix_memalign", &n->posix_memalign) &&
         look_up("aligned_alloc", &n->aligned_alloc) && look_up("memalign", &n->memalign) &&
         look_up("valloc", &n->valloc) && look_up("pvalloc", &n->pvalloc) &&
         look_up("malloc_usable_size", &n->malloc_usable_size);
}

}  // namespace terrace::liballoc

using namespace terrace::liballoc;  // NOLINT: this file's functions are the C library's

extern "C" {

TERRACE_API void* malloc(std::size_t bytes) {
  if (is_small(bytes)) [[likely]] {
    return next.malloc(bytes);
  }
  return large(bytes, 0, false, __builtin_return_address(0));
}

TERRACE_API void free(void* block) {
  if (!is_ours(block)) [[likely]] {
    return next.free(block);
  }
  const int saved = errno;
  heap().release(block, __builtin_return_address(0));
  errno = saved;
}

TERRACE_API void cfree(void* block) { free(block); }

TERRACE_API void* calloc(std::size_t count, std::size_t size) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  if (is_small(bytes)) [[likely]] {
    return next.calloc(count, size);
  }
  return large(bytes, 0, true, __builtin_return_address(0));
}

TERRACE_API void* realloc(void* block, std::size_t bytes) {
  if (is_ours(block)) {
    if (bytes == 0) {
      heap().release(block, __builtin_return_address(0));
      return nullptr;
    }
    return resize_owned(block, bytes, __builtin_return_address(0));
  }
  if (is_small(bytes)) return next.realloc(block, bytes);
  if (block == nullptr) return large(bytes, 0, false, __builtin_return_address(0));
  if (threshold_bytes == 0) start();
  if (is_small(bytes)) return next.realloc(block, bytes);
  return move_from_next(block, bytes, __builtin_return_address(0));
}

TERRACE_API void* reallocarray(void* block, std::size_t count, std::size_t size) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  return realloc(block, bytes);
}

TERRACE_API int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) {
  if (!is_power_of_two(alignment) || alignment % sizeof(void*) != 0) return EINVAL;
  if (is_small(bytes)) [[likely]] {
    return next.posix_memalign(out, alignment, bytes);
  }
  const int saved = errno;
  void* block = large(bytes, alignment, false, __builtin_return_address(0));
  errno = saved;
  if (block == nullptr) return ENOMEM;
  *out = block;
  return 0;
}

TERRACE_API void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  if (is_small(bytes)) [[likely]] {
    return next.aligned_alloc(alignment, bytes);
  }
  return large(bytes, rounded_alignment(alignment), false, __builtin_return_address(0));
}

TERRACE_API void* memalign(std::size_t alignment, std::size_t bytes) {
  if (is_small(bytes)) [[likely]] {
    return next.memalign(alignment, bytes);
  }
  return large(bytes, rounded_alignment(alignment), false, __builtin_return_address(0));
}

TERRACE_API void* valloc(std::size_t bytes) {
  if (is_small(bytes)) return next.valloc(bytes);
  return large(bytes, terrace::os::page_bytes, false, __builtin_return_address(0));
}

TERRACE_API void* pvalloc(std::size_t bytes) {
  if (is_small(bytes)) return next.pvalloc(bytes);
  const std::size_t page = terrace::os::page_bytes;
  // large() refuses what is over PTRDIFF_MAX; rounded up, the largest sizes would be zero.
  const std::size_t rounded = bytes > PTRDIFF_MAX ? bytes : (bytes + page - 1) / page * page;
  return large(rounded, page, false, __builtin_return_address(0));
}

TERRACE_API std::size_t malloc_usable_size(void* block) {
  if (block == nullptr) return 0;
  if (is_ours(block)) return heap().usable_bytes(block);
  if (!next_is_known) start();
  return next.malloc_usable_size(block);
}

TERRACE_API int malloc_trim(std::size_t pad) {
  const bool ours = heap().ready() && heap().trim() > 0;
  using Trim = int (*)(std::size_t);
  Trim trim = nullptr;
  const bool theirs = look_up("malloc_trim", &trim) && trim(pad) != 0;
  return ours || theirs ? 1 : 0;
}

}  // extern "C"
