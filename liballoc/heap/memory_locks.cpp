#include "liballoc/heap/memory_locks.h"

#include <algorithm>

#include "liballoc/base/message.h"
#include "liballoc/base/os.h"

namespace terrace::liballoc {
namespace {

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

int MemoryLocks::note(const void* address, std::size_t bytes) {
  const auto [begin, end] = pages_of(address, bytes);
  const InsideGate gate(guarded_);
  return guarded_.pager.pins().lock(begin, end);
}

// Inside one gate, or what another thread locks meanwhile would be taken to be unlocked.
int MemoryLocks::unlock(const void* address, std::size_t bytes) {
  const InsideGate gate(guarded_);
  const int error = os::error_of(syscall(SYS_munlock, address, bytes));
  if (error != 0) return error;
  const auto [begin, end] = pages_of(address, bytes);
  const std::byte* const limit = range_.committed_end();
  guarded_.pager.pins().unlock(begin, std::min(end, limit));
  return 0;
}

// Pages that the kernel locks can be neither moved nor dropped, and a pager's addresses and frames are far
// more than its memory: a kernel that fills what it locks would never come to an end. So the pager holds what
// is in its range, which the kernel does not lock, and with MCL_ONFAULT the rest of the program is locked
// page by page as it is touched.
int MemoryLocks::stop_evicting(int flags, bool* was_evicting) {
  const InsideGate gate(guarded_);
  Pager& pager = guarded_.pager;
  *was_evicting = !pager.standing().is_locked;
  pager.stop_evicting();
  const int error = os::error_of(syscall(SYS_mlockall, flags | MCL_ONFAULT));
  if (error == 0)
    pager.unlock_memory();
  else if (*was_evicting)
    pager.resume_evicting();
  return error;
}

int MemoryLocks::lock_everything(int flags) {
  bool was_evicting = false;
  if (const int error = stop_evicting(flags, &was_evicting); error != 0) return error;
  if (was_evicting && !availability_.is_unavailable()) {
    Message(Severity::warning) << "mlockall: what is in DRAM stays there, so paging stops until munlockall, "
                                  "over the budget if need be";
  }
  return 0;
}

int MemoryLocks::unlock_everything() {
  const int error = os::error_of(syscall(SYS_munlockall));
  if (error != 0 || !range_.is_reserved()) return error;
  {
    const InsideGate gate(guarded_);
    guarded_.pager.pins().unlock_all(blocks_.space().top());
    if (guarded_.pager.standing().is_locked) guarded_.pager.resume_evicting();
  }
  waker_.kick();
  return 0;
}

}  // namespace terrace::liballoc
