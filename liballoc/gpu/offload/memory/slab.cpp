#include "liballoc/gpu/offload/memory/slab.h"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "liballoc/base/os.h"

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

// Pages come from that NUMA node while it has any: a copy to a device behind the other socket goes at half
// the link's speed on many machines. Where the kernel knows no nodes, or forbids the call, they come as
// always.
void prefer_node(std::byte* base, std::uint64_t bytes, int node) {
  constexpr int most_nodes = 1024;
  constexpr int word_bits = sizeof(unsigned long) * CHAR_BIT;
  if (node < 0 || node >= most_nodes) return;
  unsigned long nodes[most_nodes / word_bits] = {};
  nodes[node / word_bits] = 1UL << (node % word_bits);
  ::syscall(SYS_mbind, base, bytes, MPOL_PREFERRED, nodes, static_cast<unsigned long>(most_nodes), 0U);
}

std::string pin_refused(std::uint64_t bytes, int error) {
  return "the host's memory cannot be page-locked: " + std::to_string(bytes) + " bytes were refused (" +
         std::strerror(error) + "); the limit on locked memory is " + lock_limit() +
         ": raise it with ulimit -l or LimitMEMLOCK=, or take a smaller budget";
}

}  // namespace

Slab::~Slab() {
  while (!chunk_ends_.empty()) {
    decommit({last_start(), chunk_ends_.back() - last_start()});
    chunk_ends_.pop_back();
  }
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

int Slab::commit(const Chunk& chunk) {
  std::byte* at = base_ + chunk.offset;
  if (const int error = os::protect(at, chunk.bytes, PROT_READ | PROT_WRITE); error != 0) return error;
  os::advise(at, chunk.bytes, MADV_HUGEPAGE);
  os::advise(at, chunk.bytes,
             MADV_DONTFORK);  // a child has no use for it, and must not share what a device writes to
  if (device_ == nullptr) return 0;
  prefer_node(at, chunk.bytes, device_->host_node());
  const int error = device_->pin(at, chunk.bytes);
  if (error != 0) {
    os::advise(at, chunk.bytes, MADV_DONTNEED);
    os::protect(at, chunk.bytes, PROT_NONE);
  }
  return error;
}

Slab::Chunk Slab::growth_for(std::uint64_t bytes, bool generous) const {
  bytes = round_up(bytes);
  if (!may_grow_for(bytes)) return {};
  const std::uint64_t room = limit_bytes() - std::min(limit_bytes(), committed_bytes_);
  const std::uint64_t wanted = bytes - std::min(bytes, free_.ending_at(committed_bytes_));
  if (!generous) return {committed_bytes_, wanted};
  const std::uint64_t step =
      round_up(std::max({wanted, committed_bytes_ / chunks_share, smallest_chunk_bytes}));
  return {committed_bytes_, std::min(step, room)};
}

bool Slab::may_grow_for(std::uint64_t bytes) const {
  const std::uint64_t end = committed_bytes_ - surplus_bytes_;
  return round_up(bytes) <= limit_bytes() - std::min(limit_bytes(), end) + free_.ending_at(end);
}

// The limit may have been lowered while the chunk was committed.
void Slab::add(const Chunk& chunk) {
  free_.give(chunk.offset, chunk.bytes);
  committed_bytes_ += chunk.bytes;
  committed_peak_bytes_ = std::max(committed_peak_bytes_, committed_bytes_);
  chunk_ends_.push_back(committed_bytes_);
  keep_end_ = no_end;
  apply_limit();
}

void Slab::set_limit(std::uint64_t bytes) {
  limit_bytes_ = bytes / unit_bytes * unit_bytes;
  apply_limit();
}

void Slab::apply_limit() {
  const auto beyond = std::upper_bound(chunk_ends_.begin(), chunk_ends_.end(), limit_bytes());
  if (beyond == chunk_ends_.end())
    limit_end_ = no_end;
  else
    limit_end_ = beyond == chunk_ends_.begin() ? 0 : *(beyond - 1);
  beyond_.move_from(0, &free_);
  free_.move_from(limit_end_, &beyond_);
}

void Slab::give(std::uint64_t offset, std::uint64_t bytes) {
  const std::uint64_t below = std::min(bytes, limit_end_ - std::min(limit_end_, offset));
  free_.give(offset, below);
  beyond_.give(offset + below, bytes - below);
}

void Slab::withhold(const tiers::Extent& extent) {
  release(extent);
  withheld_bytes_ += extent.bytes;
  apply_limit();
}

void Slab::forget_withheld(std::uint64_t bytes) {
  if (bytes == 0) return;
  withheld_bytes_ -= bytes;
  apply_limit();
}

bool Slab::has_room_for_withheld(std::uint64_t bytes) const {
  return committed_bytes_ + bytes <= std::min(limit_bytes_, capacity_bytes_) || free_.largest() >= bytes;
}

// Behind the last chunk there is room for it, if nothing that cannot leave stands beyond the limit: then it
// is in what was free there.
int Slab::hand_out_withheld(std::uint64_t bytes, tiers::Extent* out) {
  std::uint64_t offset = 0;
  const auto take = [&] { return free_.take(bytes, &offset) || beyond_.take(bytes, &offset); };
  if (!take()) {
    if (is_growing_ || surplus_bytes_ != 0) return EAGAIN;
    const std::uint64_t room = capacity_bytes_ - committed_bytes_;
    const std::uint64_t joined = std::min(bytes, beyond_.ending_at(committed_bytes_));
    const Chunk chunk{committed_bytes_, bytes <= room ? bytes : bytes - joined};
    if (chunk.bytes > room) return ENOSPC;
    if (const int error = commit(chunk); error != 0) return error;
    add(chunk);
    if (!take()) return ENOSPC;
  }
  reached_ = std::max(reached_, offset + bytes);
  *out = {offset, bytes};
  forget_withheld(bytes);
  return 0;
}

int Slab::grow(std::uint64_t bytes) {
  int error = ENOSPC;
  for (const bool generous : {true, false}) {
    const Chunk chunk = growth_for(bytes, generous);
    if (chunk.bytes == 0) return error;
    error = commit(chunk);
    if (error != 0) continue;
    add(chunk);
    return 0;
  }
  return error;
}

int Slab::reserve(std::uint64_t bytes, tiers::Extent* out) {
  if (bytes == 0 || bytes > capacity_bytes_) return bytes == 0 ? EINVAL : ENOSPC;
  bytes = round_up(bytes);
  std::uint64_t offset = 0;
  if (!free_.take(bytes, &offset)) return ENOSPC;
  reached_ = std::max(reached_, offset + bytes);
  *out = {offset, bytes};
  return 0;
}

void Slab::shrink(tiers::Extent* extent, std::uint64_t bytes) {
  bytes = round_up(bytes);
  give(extent->offset + bytes, extent->bytes - bytes);
  extent->bytes = bytes;
}

void Slab::release(const tiers::Extent& extent) { give(extent.offset, extent.bytes); }

std::uint64_t Slab::chunk_end(std::uint64_t offset) const {
  return *std::upper_bound(chunk_ends_.begin(), chunk_ends_.end(), offset);
}

void Slab::trim() {
  reached_lately_ = std::max(reached_lately_, reached_);
  reached_ = 0;
  ++steps_;
  const bool surplus = reached_lately_ <= last_start();
  if (surplus && steps_ < steps_until_given_back) return;
  keep_end_ = surplus ? reached_lately_ : no_end;
  reached_lately_ = 0;
  steps_ = 0;
}

void Slab::trim_at_once() { keep_end_ = reached_ = reached_lately_ = steps_ = 0; }

Slab::Chunk Slab::take_surplus() {
  if (chunk_ends_.empty()) return {};
  const std::uint64_t start = last_start();
  const Chunk chunk{start, committed_bytes_ - start};
  const bool is_beyond = start >= limit_end_;
  if (!is_beyond && (start < keep_end_ || reached_ > start)) return {};
  if (!(is_beyond ? beyond_ : free_).cut(start, committed_bytes_)) return {};
  chunk_ends_.pop_back();
  surplus_bytes_ = chunk.bytes;
  apply_limit();
  return chunk;
}

void Slab::decommit(const Chunk& chunk) {
  if (device_ != nullptr) device_->unpin(base_ + chunk.offset);
  os::advise(base_ + chunk.offset, chunk.bytes, MADV_DONTNEED);
  os::protect(base_ + chunk.offset, chunk.bytes, PROT_NONE);
}

void Slab::removed(const Chunk& chunk) {
  committed_bytes_ -= chunk.bytes;
  surplus_bytes_ = 0;
}

void Slab::give_back_surplus() {
  for (Chunk chunk = take_surplus(); chunk.bytes != 0; chunk = take_surplus()) {
    decommit(chunk);
    removed(chunk);
  }
}

}  // namespace terrace::liballoc::offload
