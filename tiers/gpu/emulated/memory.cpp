// See memory.h.
#include "tiers/gpu/emulated/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "tiers/gpu/device.h"
#include "tiers/gpu/without_throwing.h"

namespace terrace::tiers::gpu {
namespace {

int map_inaccessible(std::byte* at, std::uint64_t bytes) noexcept {
  constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  return ::mmap(at, bytes, PROT_NONE, flags, -1, 0) == MAP_FAILED ? errno : 0;
}

// mmap aligns to pages only: take one frame more and give back both ends.
int reserve_aligned(std::uint64_t bytes, std::byte** out) noexcept {
  constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* taken = ::mmap(nullptr, bytes + frame_size, PROT_NONE, flags, -1, 0);
  if (taken == MAP_FAILED) return errno;
  auto* const begin = static_cast<std::byte*>(taken);
  const std::uint64_t before = -reinterpret_cast<std::uintptr_t>(begin) % frame_size;
  if (before != 0) ::munmap(begin, before);
  ::munmap(begin + before + bytes, frame_size - before);
  *out = begin + before;
  return 0;
}

}  // namespace

EmulatedMemory::~EmulatedMemory() {
  for (const File* each : {&device_, &host_}) {
    if (each->fd >= 0) ::close(each->fd);
  }
}

int EmulatedMemory::open(std::uint64_t capacity_bytes) noexcept {
  const std::lock_guard lock(mutex_);
  if (device_.fd >= 0) return EBUSY;
  device_.fd = ::memfd_create("terrace-emulated-gpu", MFD_CLOEXEC);
  host_.fd = ::memfd_create("terrace-emulated-gpu-host", MFD_CLOEXEC);
  if (device_.fd < 0 || host_.fd < 0) return errno;
  capacity_frames_ = capacity_bytes / frame_size;
  return 0;
}

Memory EmulatedMemory::memory() const noexcept {
  const std::lock_guard lock(mutex_);
  return {capacity_frames_ * frame_size, (capacity_frames_ - device_.live) * frame_size};
}

int EmulatedMemory::reserve_address(std::uint64_t bytes, std::byte** out) noexcept {
  constexpr std::uint64_t largest = std::uint64_t{1} << 47;  // what a process can address
  if (bytes == 0 || bytes % frame_size != 0) return EINVAL;
  if (bytes >= largest) return ENOMEM;
  std::byte* base = nullptr;
  if (const int error = reserve_aligned(bytes, &base); error != 0) return error;
  const std::lock_guard lock(mutex_);
  const int error = table_.add_range(base, bytes);
  if (error != 0) {
    ::munmap(base, bytes);
  } else {
    *out = base;
  }
  return error;
}

int EmulatedMemory::release_address(std::byte* base, std::uint64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  if (const int error = table_.check_release(base, bytes); error != 0) return error;
  table_.remove_range(base);
  ::munmap(base, bytes);
  return 0;
}

// One frame more in the file. The list of free ones grows first: it can throw, and destroy_frame() must not.
int EmulatedMemory::grow(File& file) noexcept {
  return without_throwing([&] {
    if (file.free.capacity() <= file.frames) file.free.reserve(2 * file.frames + 16);
    const auto bytes = static_cast<off_t>((file.frames + 1) * frame_size);
    if (::ftruncate(file.fd, bytes) != 0) return errno == EFBIG ? ENOMEM : errno;
    file.frames++;
    file.free.push_back(file.frames);
    return 0;
  });
}

int EmulatedMemory::create_frame(Place place, Frame* out) noexcept {
  const std::lock_guard lock(mutex_);
  File& from = file(place);
  if (place == Place::device && from.live == capacity_frames_) return ENOMEM;
  if (from.free.empty()) {
    if (const int error = grow(from); error != 0) return error;
  }
  const Frame frame{from.free.back(), place};
  if (const int error = table_.add_frame(frame); error != 0) return error;
  from.free.pop_back();
  from.live++;
  *out = frame;
  return 0;
}

int EmulatedMemory::destroy_frame(Frame frame) noexcept {
  const std::lock_guard lock(mutex_);
  if (const int error = table_.check_destroy(frame); error != 0) return error;
  table_.remove_frame(frame);
  File& in = file(frame.place);
  const auto offset = static_cast<off_t>((frame.handle - 1) * frame_size);
  ::fallocate(in.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, static_cast<off_t>(frame_size));
  in.free.push_back(frame.handle);
  in.live--;
  return 0;
}

int EmulatedMemory::place_frame(std::byte* at, Frame frame) noexcept {
  constexpr int access = PROT_READ | PROT_WRITE;
  const auto offset = static_cast<off_t>((frame.handle - 1) * frame_size);
  const int fd = file(frame.place).fd;
  return ::mmap(at, frame_size, access, MAP_SHARED | MAP_FIXED, fd, offset) == MAP_FAILED ? errno : 0;
}

int EmulatedMemory::map(std::byte* at, std::span<const Frame> frames) noexcept {
  const std::lock_guard lock(mutex_);
  if (const int error = table_.map(at, frames); error != 0) return error;
  for (std::size_t done = 0; done < frames.size(); ++done) {
    const int error = place_frame(at + done * frame_size, frames[done]);
    if (error == 0) continue;
    if (done != 0) map_inaccessible(at, done * frame_size);
    table_.unmap(at, frames.size() * frame_size);
    return error;
  }
  return 0;
}

int EmulatedMemory::unmap(std::byte* at, std::uint64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  if (const int error = table_.check_unmap(at, bytes); error != 0) return error;
  if (const int error = map_inaccessible(at, bytes); error != 0) return error;
  table_.unmap(at, bytes);
  return 0;
}

bool EmulatedMemory::accessible(const void* at, std::uint64_t bytes) const noexcept {
  const std::lock_guard lock(mutex_);
  return table_.accessible(at, bytes);
}

}  // namespace terrace::tiers::gpu
