// libterrace_preload.so: what a program does with memory that malloc gave it, by system calls that would
// otherwise pass the pager by.
//
//   madvise(DONTNEED, FREE)   an evicted run must come back as zeroes, not as what was evicted
//   mlock, mprotect           the run stays in DRAM: a locked page must not fault, and a mapping that is cut
//                             up can no longer be moved whole
//   mlockall                  paging stops until munlockall: what is in DRAM stays there, what is not comes
//                             when it is touched and then stays
//   munmap                    the addresses stay reserved for the heap, the content goes
//   mremap                    the content moves to a mapping of the program's own
//
// mlockall(MCL_CURRENT) under a finite RLIMIT_MEMLOCK fails with ENOMEM: the heap's reservation counts
// (docs/decisions/004).
//
// Ranges outside the heap go straight to the kernel.
#include <sys/mman.h>

#include <algorithm>
#include <cstdarg>
#include <cstdint>
#include <cstring>

#include "liballoc/base/os.h"
#include "liballoc/heap/heap.h"
#include "liballoc/terrace.h"

namespace os = terrace::os;
using terrace::liballoc::heap;

namespace {

bool is_heap(const void* address) { return heap().owns_block(address); }

int result_of(int error) {
  if (error == 0) return 0;
  errno = error;
  return -1;
}

// The content goes to memory outside the heap.
void* move_out(void* from, std::size_t old_bytes, std::size_t new_bytes, int flags, void* wanted) {
  if ((flags & MREMAP_MAYMOVE) == 0) return new_bytes <= old_bytes ? from : MAP_FAILED;
  const bool fixed = (flags & MREMAP_FIXED) != 0;
  void* to = os::map_anonymous(new_bytes, PROT_READ | PROT_WRITE, fixed ? wanted : nullptr);
  if (to == nullptr) return MAP_FAILED;
  std::memcpy(to, from, std::min(old_bytes, new_bytes));
  heap().discards().discard(from, old_bytes, MADV_DONTNEED);
  return to;
}

// Locked or protected pages are held first; a hold that the budget has no room for is refused.
int hold(const void* address, std::size_t bytes) {
  return is_heap(address) && heap().pins().pin(address, bytes) == ENOMEM ? ENOMEM : 0;
}

int let_go_unless(int error, const void* address, std::size_t bytes) {
  if (error != 0 && is_heap(address)) heap().pins().unpin(address, bytes);
  return error;
}

// Held while the kernel locks it, and from then on by the lock. A lock that cannot be noted stays held until
// the block is freed.
template <typename Lock>
int lock_held(const void* address, std::size_t bytes, Lock lock) {
  const int held = is_heap(address) ? heap().pins().pin(address, bytes) : EINVAL;
  if (held == ENOMEM) return ENOMEM;
  const int error = os::error_of(lock());
  if (held == 0 && (error != 0 || heap().locks().note(address, bytes) == 0))
    heap().pins().unpin(address, bytes);
  return error;
}

bool may_page() { return heap().ready() && heap().options().may_page(); }

}  // namespace

extern "C" {

TERRACE_API int madvise(void* address, std::size_t bytes, int advice) {
  const bool drops = advice == MADV_DONTNEED || advice == MADV_FREE || advice == MADV_REMOVE;
  if (drops && is_heap(address)) return result_of(heap().discards().discard(address, bytes, advice));
  return result_of(os::advise(address, bytes, advice));
}

TERRACE_API int munmap(void* address, std::size_t bytes) {
  if (!is_heap(address)) return result_of(os::unmap(address, bytes));
  return result_of(heap().discards().discard(address, bytes, MADV_DONTNEED));
}

TERRACE_API int mprotect(void* address, std::size_t bytes, int protection) {
  if (const int error = hold(address, bytes); error != 0) return result_of(error);
  return result_of(let_go_unless(os::protect(address, bytes, protection), address, bytes));
}

TERRACE_API int mlock(const void* address, std::size_t bytes) {
  return result_of(lock_held(address, bytes, [=] { return syscall(SYS_mlock, address, bytes); }));
}

TERRACE_API int mlock2(const void* address, std::size_t bytes, unsigned flags) noexcept {
  return result_of(lock_held(address, bytes, [=] { return syscall(SYS_mlock2, address, bytes, flags); }));
}

TERRACE_API int munlock(const void* address, std::size_t bytes) {
  return result_of(is_heap(address) ? heap().locks().unlock(address, bytes)
                                    : os::error_of(syscall(SYS_munlock, address, bytes)));
}

TERRACE_API int mlockall(int flags) {
  return result_of(may_page() ? heap().locks().lock_everything(flags)
                              : os::error_of(syscall(SYS_mlockall, flags)));
}

TERRACE_API int munlockall() { return result_of(heap().locks().unlock_everything()); }

TERRACE_API void* mremap(void* from, std::size_t old_bytes, std::size_t new_bytes, int flags, ...) noexcept {
  void* wanted = nullptr;
  if ((flags & MREMAP_FIXED) != 0) {
    va_list arguments;
    va_start(arguments, flags);
    wanted = va_arg(arguments, void*);
    va_end(arguments);
  }
  if (is_heap(from)) {
    void* moved = move_out(from, old_bytes, new_bytes, flags, wanted);
    if (moved == MAP_FAILED) errno = ENOMEM;
    return moved;
  }
  const long result = syscall(SYS_mremap, from, old_bytes, new_bytes, flags, wanted);
  return reinterpret_cast<void*>(result);
}

}  // extern "C"
