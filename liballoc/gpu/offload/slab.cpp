#include "liballoc/gpu/offload/slab.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "liballoc/os.h"

namespace terrace::liballoc::offload {
namespace {

constexpr std::uint64_t smallest_chunk_bytes = std::uint64_t{1} << 20;
constexpr std::uint64_t chunks_share = 32;  // a chunk is at least this part of what is committed

std::uint64_t round_up(std::uint64_t bytes) {
  return (bytes + Slab::unit_bytes - 1) / Slab::unit_bytes * Slab::unit_bytes;
}

std::string lock_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "not limited";
  return std::to_string(limit.rlim_cur) + " bytes";
}

// mlock2(MLOCK_ONFAULT) asks the kernel for the whole of it without taking a page of memory.
int may_lock(std::byte* base, std::uint64_t bytes) {
  if (::mlock2(base, bytes, MLOCK_ONFAULT) != 0) return errno;
  ::munlock(base, bytes);
  return 0;
}

std::string pin_refused(std::uint64_t bytes, int error) {
  return "the host's memory cannot be page-locked: " + std::to_string(bytes) + " bytes were refused (" +
         std::strerror(error) + "); the limit on locked memory is " + lock_limit() +
         ": raise it with ulimit -l or LimitMEMLOCK=, or take a smaller budget";
}

}  // namespace

Slab::~Slab() {
  while (!chunk_ends_.empty()) give_back_last();
  if (base_ != nullptr) os::unmap(base_, capacity_bytes_);
}

int Slab::open(std::uint64_t capacity_bytes, tiers::gpu::Device* device, std::string* reason) {
  base_ = static_cast<std::byte*>(os::map_anonymous(capacity_bytes, PROT_NONE));
  if (base_ == nullptr) {
    *reason =
        "no address range of " + std::to_string(capacity_bytes) + " bytes: raise the limit of ulimit -v";
    return ENOMEM;
  }
  capacity_bytes_ = capacity_bytes;
  device_ = device;
  if (device == nullptr) return 0;
  // Only the emulated device locks by mlock; CUDA's driver has its own ways, found out by pinning.
  int error = device->kind() == tiers::gpu::Kind::emulated ? may_lock(base_, capacity_bytes) : 0;
  if (error == 0) error = grow(smallest_chunk_bytes);
  if (error != 0) *reason = pin_refused(capacity_bytes, error);
  return error;
}

int Slab::commit(std::uint64_t bytes) {
  std::byte* at = base_ + committed_bytes_;
  if (const int error = os::protect(at, bytes, PROT_READ | PROT_WRITE); error != 0) return error;
  os::advise(at, bytes, MADV_HUGEPAGE);
  os::advise(at, bytes,
             MADV_DONTFORK);  // a child has no use for it, and must not share what a device writes to
  if (device_ == nullptr) return 0;
  const int error = device_->pin(at, bytes);
  if (error != 0) {
    os::advise(at, bytes, MADV_DONTNEED);
    os::protect(at, bytes, PROT_NONE);
  }
  return error;
}

// A large step first, then what is needed at least.
int Slab::grow(std::uint64_t bytes) {
  const std::uint64_t room = capacity_bytes_ - committed_bytes_;
  const std::uint64_t wanted = bytes - std::min(bytes, free_.ending_at(committed_bytes_));
  if (wanted > room) return ENOSPC;
  std::uint64_t chunk = round_up(std::max({wanted, committed_bytes_ / chunks_share, smallest_chunk_bytes}));
  chunk = std::min(chunk, room);
  int error = commit(chunk);
  if (error != 0 && chunk > wanted) error = commit(chunk = wanted);
  if (error != 0) return error;
  free_.give(committed_bytes_, chunk);
  committed_bytes_ += chunk;
  committed_peak_bytes_ = std::max(committed_peak_bytes_, committed_bytes_);
  chunk_ends_.push_back(committed_bytes_);
  return 0;
}

int Slab::reserve(std::uint64_t bytes, tiers::Extent* out) {
  if (bytes == 0 || bytes > capacity_bytes_) return bytes == 0 ? EINVAL : ENOSPC;
  bytes = round_up(bytes);
  std::uint64_t offset = 0;
  if (!free_.take(bytes, &offset)) {
    if (const int error = grow(bytes); error != 0) return error;
    if (!free_.take(bytes, &offset)) return ENOSPC;
  }
  reached_ = std::max(reached_, offset + bytes);
  *out = {offset, bytes};
  return 0;
}

void Slab::shrink(tiers::Extent* extent, std::uint64_t bytes) {
  bytes = round_up(bytes);
  free_.give(extent->offset + bytes, extent->bytes - bytes);
  extent->bytes = bytes;
}

void Slab::release(const tiers::Extent& extent) { free_.give(extent.offset, extent.bytes); }

std::uint64_t Slab::chunk_end(std::uint64_t offset) const {
  return *std::upper_bound(chunk_ends_.begin(), chunk_ends_.end(), offset);
}

void Slab::give_back_last() {
  chunk_ends_.pop_back();
  const std::uint64_t start = chunk_ends_.empty() ? 0 : chunk_ends_.back();
  const std::uint64_t bytes = committed_bytes_ - start;
  if (device_ != nullptr) device_->unpin(base_ + start);
  os::advise(base_ + start, bytes, MADV_DONTNEED);
  os::protect(base_ + start, bytes, PROT_NONE);
  committed_bytes_ = start;
}

void Slab::cut_behind(std::uint64_t end) {
  while (!chunk_ends_.empty()) {
    const std::uint64_t start = chunk_ends_.size() > 1 ? chunk_ends_[chunk_ends_.size() - 2] : 0;
    if (start < end || !free_.cut(start, committed_bytes_)) return;
    give_back_last();
  }
}

void Slab::trim() {
  const std::uint64_t last_start = chunk_ends_.size() > 1 ? chunk_ends_[chunk_ends_.size() - 2] : 0;
  reached_lately_ = std::max(reached_lately_, reached_);
  reached_ = 0;
  ++steps_;
  if (reached_lately_ <= last_start && steps_ < steps_until_given_back) return;
  if (reached_lately_ <= last_start) cut_behind(reached_lately_);
  reached_lately_ = 0;
  steps_ = 0;
}

}  // namespace terrace::liballoc::offload
