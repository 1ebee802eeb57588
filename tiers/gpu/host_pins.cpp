// See host_pins.h.
#include "tiers/gpu/host_pins.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "tiers/gpu/without_throwing.h"

namespace terrace::tiers::gpu {
namespace {

constexpr std::uint64_t page = 4096;

bool whole_pages(std::uintptr_t at, std::uint64_t bytes) noexcept {
  return at != 0 && bytes != 0 && at % page == 0 && bytes % page == 0 && at + bytes > at;
}

// The sanitizers turn the library's mlock into nothing; the system call they leave alone.
int lock_pages(void* host, std::uint64_t bytes) noexcept {
  return ::syscall(SYS_mlock, host, bytes) == 0 ? 0 : errno;
}
void unlock_pages(void* host, std::uint64_t bytes) noexcept { ::syscall(SYS_munlock, host, bytes); }

// mlock fails without effect, or after having locked a part: munlock undoes either.
int lock(void* host, std::uint64_t bytes) noexcept {
  const int error = lock_pages(host, bytes);
  if (error == 0) return 0;
  unlock_pages(host, bytes);
  if (error != ENOMEM) return error;
  // MS_ASYNC writes nothing and fails with ENOMEM exactly where something is not mapped.
  return ::msync(host, bytes, MS_ASYNC) != 0 ? EINVAL : EAGAIN;
}

}  // namespace

HostPins::~HostPins() {
  for (const auto& [at, bytes] : pinned_) unlock_pages(reinterpret_cast<void*>(at), bytes);
}

int HostPins::pin(void* host, std::uint64_t bytes) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(host);
  if (!whole_pages(at, bytes)) return EINVAL;
  const std::lock_guard guard(mutex_);
  const auto above = pinned_.lower_bound(at + bytes);
  if (above != pinned_.begin()) {
    const auto& [last, last_bytes] = *std::prev(above);
    if (last + last_bytes > at) return EEXIST;
  }
  if (const int error = lock(host, bytes); error != 0) return error;
  const int error = without_throwing([&] { return pinned_.emplace(at, bytes), 0; });
  if (error != 0) unlock_pages(host, bytes);
  return error;
}

int HostPins::unpin(void* host) noexcept {
  const std::lock_guard guard(mutex_);
  const auto found = pinned_.find(reinterpret_cast<std::uintptr_t>(host));
  if (found == pinned_.end()) return EINVAL;
  unlock_pages(host, found->second);  // fails only for memory that is not mapped any more
  pinned_.erase(found);
  return 0;
}

}  // namespace terrace::tiers::gpu
