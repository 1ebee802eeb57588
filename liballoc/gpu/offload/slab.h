// The host memory that holds stored tensors: one address range, committed and pinned from its start as it is
// needed, carved into extents of exactly the size asked for.
//
//   0         chunk 0            chunk 1        committed      capacity
//   ├─────────────────────────┼──────────────┤················│
//   │ A │ B │ free │   C      │ D │  free    │  no memory      │
//
// Why not an allocation for each tensor: page-locking is slow and stops other CUDA calls, so it is done once
// for a chunk; and PyTorch's pinned allocator rounds up to powers of two, which took 1.78 times the bytes
// (vllm-backport#67). Here an extent is rounded to 4 KiB and the next chunk is a thirty-second of what is
// there, so what is committed stays within a few hundredths of what was needed at once. Chunks at the end
// that no step uses any more are given back.
//
// Not thread-safe: the engine's lock guards it. Extents are at an address that does not change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "liballoc/gpu/offload/free_extents.h"
#include "tiers/gpu/device.h"
#include "tiers/tier.h"

namespace terrace::liballoc::offload {

class Slab {
 public:
  static constexpr std::uint64_t unit_bytes = 4096;

  Slab() = default;
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;
  // Everything on it has ended; the device still lives.
  ~Slab();

  // At most `capacity_bytes` (a multiple of unit_bytes) of memory, pinned by `device`; nullptr: not pinned.
  // Tries the first chunk, so that a machine that refuses to pin is found here. 0 or errno with *reason.
  int open(std::uint64_t capacity_bytes, tiers::gpu::Device* device, std::string* reason);

  // 0 and an extent of `bytes` rounded up to unit_bytes, ENOSPC, or the errno of committing or pinning more.
  int reserve(std::uint64_t bytes, tiers::Extent* out);
  // Gives back all of *extent but its first `bytes`, rounded up.
  void shrink(tiers::Extent* extent, std::uint64_t bytes);
  void release(const tiers::Extent& extent);
  // The step is over: gives back the chunks at the end that none of the last few steps reached.
  static constexpr unsigned steps_until_given_back = 4;
  void trim();

  std::byte* at(const tiers::Extent& extent) const { return base_ + extent.offset; }
  // Where the chunk ends that `offset` lies in: a copy across chunks is two, as each was pinned for itself.
  std::uint64_t chunk_end(std::uint64_t offset) const;

  std::uint64_t capacity_bytes() const { return capacity_bytes_; }
  std::uint64_t committed_bytes() const { return committed_bytes_; }
  std::uint64_t committed_peak_bytes() const { return committed_peak_bytes_; }
  std::uint64_t used_bytes() const { return committed_bytes_ - free_.free_bytes(); }

 private:
  int grow(std::uint64_t bytes);
  int commit(std::uint64_t bytes);
  void give_back_last();
  void cut_behind(std::uint64_t end);

  std::byte* base_ = nullptr;
  std::uint64_t capacity_bytes_ = 0;
  std::uint64_t committed_bytes_ = 0;
  std::uint64_t committed_peak_bytes_ = 0;
  std::uint64_t reached_ = 0;         // the end of the furthest extent since the last trim()
  std::uint64_t reached_lately_ = 0;  // in the last `steps_` steps
  unsigned steps_ = 0;
  tiers::gpu::Device* device_ = nullptr;
  std::vector<std::uint64_t> chunk_ends_;  // ascending
  FreeExtents free_;
};

}  // namespace terrace::liballoc::offload
