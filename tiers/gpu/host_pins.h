// Host memory locked with mlock, and what was locked: unpin() takes exactly what pin() took.
//
// mlock's errno values overlap: ENOMEM means both that the limit would be passed and that nothing is mapped
// there. Here EPERM and EAGAIN are the limit (RLIMIT_MEMLOCK), EINVAL is memory that is not mapped. Any
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

namespace terrace::tiers::gpu {

class HostPins {
 public:
  HostPins() = default;
  ~HostPins();  // unlocks what is left
  HostPins(const HostPins&) = delete;
  HostPins& operator=(const HostPins&) = delete;

  int pin(void* host, std::uint64_t bytes) noexcept;  // EEXIST: a part of it is pinned already
  int unpin(void* host) noexcept;

 private:
  std::mutex mutex_;
  std::map<std::uintptr_t, std::uint64_t> pinned_;  // guarded by mutex_: address, bytes
};

}  // namespace terrace::tiers::gpu
