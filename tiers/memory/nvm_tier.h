// A tier in NVM: CXL or persistent memory that the processor addresses, reached through memkind.
//
// Two ways in, in this order:
//  * NUMA nodes of slow memory that the kernel uses as system memory (memkind's MEMKIND_DAX_KMEM).
//    memkind finds them itself, or MEMKIND_DAX_KMEM_NODES names them.
//  * A directory on a file system, meant for one mounted with DAX on persistent memory
//    (memkind_create_pmem): memkind keeps an unnamed file there. Any directory works, at
//    the speed of its page cache.
// The whole capacity is taken from memkind once, at open(), and carved by the same allocator as every other
// tier: memkind's own heap (a jemalloc) is never entered on the transfer path.
//
// memkind 1.14 is no longer developed by its maker, hence this one file and a library of its own,
// terrace_tiers_nvm, built only where memkind is; the preloaded library does not link it, because memkind
// brings a second jemalloc.
//
// Fork: KMEM memory is private and the child has its copy. The directory's file is shared: the parent must
// not release or overwrite an extent that a child may still read, as with the NVMe tier.
#pragma once

#include "tiers/memory/arena_tier.h"

struct memkind;

namespace terrace::tiers {

class NvmTier final : public ArenaTier {
 public:
  constexpr NvmTier() = default;
  ~NvmTier() override { close(); }

  // On the machine's slow NUMA nodes. ENODEV when there are none.
  int open_kmem(std::uint64_t capacity_bytes, std::size_t queue_depth = default_queue_depth) noexcept;
  // In a file that memkind keeps in `directory`. ENODEV when memkind cannot: not a directory, no permission,
  // no room for the file. Space is taken from the disk as it is written.
  int open_directory(const char* directory, std::uint64_t capacity_bytes,
                     std::size_t queue_depth = default_queue_depth) noexcept;
  // Both: EINVAL as ImmediateTier::open_space, ENOMEM when memkind has not that much, EBUSY when open.

  const char* name() const noexcept override { return "nvm"; }
  Medium medium_of(std::uint64_t) const noexcept override { return Medium::nvm; }
  std::uint64_t bytes_on(Medium medium) const noexcept override {
    return medium == Medium::nvm ? space().used_bytes : 0;
  }

 private:
  int take_arena(memkind* kind) noexcept;
  void close() noexcept;
  void discard(const Extent& extent) noexcept override;

  memkind* kind_ = nullptr;
  bool owns_kind_ = false;
};

}  // namespace terrace::tiers
