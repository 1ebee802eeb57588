// A tier in NVM: CXL or persistent memory, slower than DRAM and faster than a drive, between both.
//
// Extents of a file (nvm_file.h) that the processor copies to and from inside submit(): no ring, no waiting,
// and no faster with several in flight. The file grows in steps, so that a place without room is found when
// space is reserved (ENOSPC, and the caller goes on to the next tier) and never when a page has been taken
// away. On NUMA nodes room is what the nodes have free, with some left for others: a file that is bound to
// full nodes would bring the kernel's out-of-memory killer.
//
// What was taken stays the file's until it is closed: writing to pages that are there costs a fraction of
// writing to fresh ones.
//
// Fork: the child shares the file and has a copy of the bookkeeping, frozen, as with the NVMe tier: the
// parent must not release or overwrite an extent that a child may still read.
#pragma once

#include "tiers/memory/immediate_tier.h"
#include "tiers/memory/node_set.h"
#include "tiers/pool_file.h"

namespace terrace::tiers {

class NvmTier final : public ImmediateTier {
 public:
  // Of which the file takes more at a time.
  static constexpr std::uint64_t step_bytes = std::uint64_t{16} << 20;
  // Of the nodes together, left free for whoever else takes from them.
  static constexpr std::uint64_t left_on_nodes_bytes = std::uint64_t{64} << 20;

  constexpr NvmTier() = default;
  ~NvmTier() override { close(); }

  // Owns `fd` from success on; on failure it stays the caller's. EINVAL: as ImmediateTier::open_space(), or
  // no regular file open for reading and writing; EBUSY: open already.
  int open(int fd, std::uint64_t capacity_bytes, std::size_t queue_depth = default_queue_depth) noexcept;
  // Drops the file. Also done on destruction.
  void close() noexcept;

  int fd() const noexcept { return file_.fd(); }
  // What the file takes of its place, at least the extents handed out.
  std::uint64_t taken_bytes() const noexcept { return taken_bytes_; }

  const char* name() const noexcept override { return "nvm"; }
  const char* io() const noexcept override { return "pread"; }
  Medium medium_of(std::uint64_t) const noexcept override { return Medium::nvm; }
  std::uint64_t bytes_on(Medium medium) const noexcept override {
    return medium == Medium::nvm ? space().used_bytes : 0;
  }

 private:
  int carry_out(const Transfer& transfer) noexcept override;
  int back(const Extent& extent) noexcept override;
  void discard(const Extent&) noexcept override {}
  int grow(std::uint64_t end) noexcept;
  int grow_on_nodes(std::uint64_t end) noexcept;

  PoolFile file_;
  NodeSet nodes_;  // empty: a directory's
  std::uint64_t taken_bytes_ = 0;
  unsigned refusals_left_ = 0;  // until a place that was full is asked again
};

}  // namespace terrace::tiers
