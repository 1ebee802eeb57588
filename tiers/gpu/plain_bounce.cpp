// The plain way through host memory, for comparison: see direct_probe.h.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "tiers/gpu/direct_probe.h"

namespace terrace::tiers::gpu {
namespace {

// Carries short transfers on; the file's end within the range is EIO.
template <class Transfer>
int whole(std::uint64_t bytes, const Transfer& transfer) noexcept {
  for (std::uint64_t done = 0; done < bytes;) {
    const ssize_t moved = transfer(done);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return moved < 0 ? errno : EIO;
    done += static_cast<std::uint64_t>(moved);
  }
  return 0;
}

}  // namespace

PlainBounce::~PlainBounce() {
  if (pinned_) device_.unpin(memory_);
  if (memory_ != nullptr) ::munmap(memory_, bytes_);
  if (event_ != nullptr) device_.destroy_event(event_);
}

int PlainBounce::open(std::uint64_t bytes) noexcept {
  if (memory_ != nullptr) return EBUSY;
  if (const int error = device_.create_event(&event_); error != 0) return error;
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return errno;
  memory_ = memory;
  bytes_ = bytes;
  pinned_ = device_.pin(memory, bytes) == 0;
  return 0;
}

int PlainBounce::copy(void* to, const void* from, std::uint64_t bytes, Way way) noexcept {
  int error = device_.copy(nullptr, to, from, bytes, way);
  if (error == 0) error = device_.record(event_, nullptr);
  return error != 0 ? error : device_.synchronize(event_);
}

BouncePath PlainBounce::path() noexcept {
  const auto write = [](void* self, const void* device, std::uint64_t bytes, std::uint64_t offset) {
    auto* const own = static_cast<PlainBounce*>(self);
    if (bytes > own->bytes_) return EINVAL;
    if (const int error = own->copy(own->memory_, device, bytes, Way::to_host); error != 0) return error;
    return whole(bytes, [&](std::uint64_t done) {
      const auto* const from = static_cast<const std::byte*>(own->memory_) + done;
      return ::pwrite(own->fd_, from, bytes - done, static_cast<off_t>(offset + done));
    });
  };
  const auto read = [](void* self, void* device, std::uint64_t bytes, std::uint64_t offset) {
    auto* const own = static_cast<PlainBounce*>(self);
    if (bytes > own->bytes_) return EINVAL;
    const int error = whole(bytes, [&](std::uint64_t done) {
      auto* const to = static_cast<std::byte*>(own->memory_) + done;
      return ::pread(own->fd_, to, bytes - done, static_cast<off_t>(offset + done));
    });
    return error != 0 ? error : own->copy(device, own->memory_, bytes, Way::to_device);
  };
  return {write, read, this};
}

}  // namespace terrace::tiers::gpu
