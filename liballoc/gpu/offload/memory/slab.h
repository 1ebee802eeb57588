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
// The limit is what may be committed at present, within the capacity. Lowered, it divides the range at the
// end of a chunk: what is free beyond is given to nobody, and chunks there are given back as their extents
// are released. What is withheld (held_extent.h) is no memory until it is asked for, and then beyond the
// limit, too: the capacity keeps room for it.
//
// Not thread-safe: the engine's lock guards it, but for commit() and decommit(), which page-lock and are
// slow: they touch a chunk that nobody else knows of, so a thread calls them without the lock, between the
// two halves of a growth or a return. Extents are at an address that does not change.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "liballoc/gpu/offload/memory/free_extents.h"
#include "tiers/gpu/device.h"
#include "tiers/tier.h"

namespace terrace::liballoc::offload {

class Slab {
 public:
  static constexpr std::uint64_t unit_bytes = 4096;

  struct Chunk {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };

  Slab() = default;
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;
  // Everything on it has ended; the device still lives.
  ~Slab();

  // At most `capacity_bytes` (a multiple of unit_bytes) of memory, pinned by `device`; nullptr: not pinned.
  // Tries the first chunk, so that a machine that refuses to pin is found here. 0 or errno with *reason.
  int open(std::uint64_t capacity_bytes, tiers::gpu::Device* device, std::string* reason);

  // 0 and an extent of `bytes` rounded up to unit_bytes; ENOSPC: not in what is committed.
  int reserve(std::uint64_t bytes, tiers::Extent* out);

  // Growing, in three steps: what to commit so that reserve(bytes) has room, no bytes if the capacity has no
  // such room; its memory, 0 or the errno of committing or pinning; and from add() on it is the slab's. One
  // growth or return at a time. `generous`: a larger step, as steps cost time.
  Chunk growth_for(std::uint64_t bytes, bool generous) const;
  bool may_grow_for(std::uint64_t bytes) const;  // or may once a return has ended
  int commit(const Chunk& chunk);
  void add(const Chunk& chunk);
  // Around a growth that gives up the lock in between.
  void begin_growth() { is_growing_ = true; }
  void end_growth() { is_growing_ = false; }
  bool is_growing() const { return is_growing_; }
  // All three, a generous step first. ENOSPC where the capacity has no room.
  int grow(std::uint64_t bytes);

  // From now on, until another is set: the capacity at first. In whole units, rounded down. Nothing that is
  // in use is touched.
  void set_limit(std::uint64_t bytes);
  // What may be committed: the limit within the capacity, less what is withheld.
  std::uint64_t limit_bytes() const { return std::min(limit_bytes_, capacity_bytes_ - withheld_bytes_); }
  // More is committed than that.
  bool is_over_limit() const { return limit_end_ != no_end; }
  // Its release lets a chunk be given back that the limit has no room for.
  bool is_beyond_limit(const tiers::Extent& extent) const {
    return extent.offset + extent.bytes > limit_end_;
  }

  // Takes an extent back for as long as nobody needs it: only the rest of the capacity is for others.
  void withhold(const tiers::Extent& extent);
  // Whether all that is committed is within that rest.
  bool may_withhold(std::uint64_t bytes) const {
    return committed_bytes_ + withheld_bytes_ + bytes <= capacity_bytes_;
  }
  // `bytes` of what was withheld, in what is committed or in a chunk more, whatever the limit says. 0; EAGAIN
  // while a chunk comes or goes; ENOSPC: what is beyond the limit is in the way; or the errno of committing.
  int hand_out_withheld(std::uint64_t bytes, tiers::Extent* out);
  // Whether that would stay within the limit.
  bool has_room_for_withheld(std::uint64_t bytes) const;
  // Nobody will ask for so many bytes.
  void forget_withheld(std::uint64_t bytes);

  // Gives back all of *extent but its first `bytes`, rounded up.
  void shrink(tiers::Extent* extent, std::uint64_t bytes);
  void release(const tiers::Extent& extent);

  // The step is over: the chunks at the end that none of the last few steps reached are to be given back.
  static constexpr unsigned steps_until_given_back = 4;
  void trim();
  // All that is free at the end is to be given back, whenever it was reached.
  void trim_at_once();
  // In three steps again: the last chunk, no bytes if it is in use or was reached lately; its memory; its
  // place.
  Chunk take_surplus();
  void decommit(const Chunk& chunk);
  void removed(const Chunk& chunk);
  void give_back_surplus();  // all of it

  std::byte* at(const tiers::Extent& extent) const { return base_ + extent.offset; }
  // Where the chunk ends that `offset` lies in: a copy across chunks is two, as each was pinned for itself.
  std::uint64_t chunk_end(std::uint64_t offset) const;

  std::uint64_t capacity_bytes() const { return capacity_bytes_; }
  std::uint64_t committed_bytes() const { return committed_bytes_; }
  std::uint64_t committed_peak_bytes() const { return committed_peak_bytes_; }
  std::uint64_t used_bytes() const { return committed_bytes_ - surplus_bytes_ - spare_bytes(); }
  // Committed and free.
  std::uint64_t spare_bytes() const { return free_.free_bytes() + beyond_.free_bytes(); }

 private:
  static constexpr std::uint64_t no_end = ~std::uint64_t{0};
  std::uint64_t last_start() const {
    return chunk_ends_.size() > 1 ? chunk_ends_[chunk_ends_.size() - 2] : 0;
  }
  void apply_limit();
  void give(std::uint64_t offset, std::uint64_t bytes);

  std::byte* base_ = nullptr;
  std::uint64_t capacity_bytes_ = 0;
  std::uint64_t committed_bytes_ = 0;
  std::uint64_t committed_peak_bytes_ = 0;
  std::uint64_t reached_ = 0;         // the end of the furthest extent since the last trim()
  std::uint64_t reached_lately_ = 0;  // in the last `steps_` steps
  unsigned steps_ = 0;
  std::uint64_t keep_end_ = no_end;  // chunks that begin behind it are surplus
  std::uint64_t surplus_bytes_ = 0;  // committed, taken by take_surplus()
  bool is_growing_ = false;
  tiers::gpu::Device* device_ = nullptr;
  std::vector<std::uint64_t> chunk_ends_;  // ascending
  FreeExtents free_;
  std::uint64_t limit_bytes_ = no_end;
  std::uint64_t limit_end_ = no_end;  // chunks from here on are beyond the limit
  FreeExtents beyond_;                // free, and for nobody
  std::uint64_t withheld_bytes_ = 0;
};

}  // namespace terrace::liballoc::offload
