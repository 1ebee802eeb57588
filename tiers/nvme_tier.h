// The NVMe tier: extents of a file, moved with io_uring and O_DIRECT straight between the
// job's pages and the device.
//
// One file and no file system metadata of ours: what lies where is known to the pager alone, and the file
// dies with its last holder. The file is preallocated in steps, so that a full disk is found when space is
// reserved (ENOSPC, data stays in DRAM) and not when a page has already been taken away. Where io_uring is
// refused (old kernel, seccomp, sysctl) transfers run synchronously in submit() by pread and pwrite, and so
// does each one that the ring does not take (a program that shuts itself in, a kernel short of memory); where
// the file system refuses O_DIRECT they go through the page cache. io() and direct() tell which.
//
// Fork: the child shares the file and has a copy of the bookkeeping. reopen_after_fork() gives it a ring of
// its own and freezes the space: what the parent stored before can be read, nothing can be reserved or
// written (EROFS), because parent and child would hand out the same extents. The parent must not release or
// overwrite an extent that a child may still read; that is the pager's business. A child that does not reopen
// must not touch or destroy the tier either: its ring is not mapped there.
//
// Use: NvmeTier tier; int fd; open_pool_file(dir, &fd); tier.open(fd, options). No malloc anywhere.
#pragma once

#include "tiers/extent_allocator.h"
#include "tiers/fixed_queue.h"
#include "tiers/pool_file.h"
#include "tiers/tier.h"
#include "tiers/transfer.h"
#include "tiers/uring.h"

namespace terrace::tiers {

class NvmeTier final : public Tier {
 public:
  enum class Io : std::uint8_t { automatic, io_uring, pread };

  struct Options {
    std::uint64_t capacity_bytes = 0;
    std::uint64_t grow_step_bytes = std::uint64_t{1} << 30;  // at most, of disk space ahead of need
    std::size_t queue_depth = 32;                            // 1 to max_queue_depth
    Io io = Io::automatic;  // automatic: io_uring, or pread where that is refused
  };

  constexpr NvmeTier() = default;
  ~NvmeTier() override { close(); }

  // Owns `fd` from success on; on failure it stays the caller's. EINVAL: options out of range or a
  // descriptor that is not a regular file open O_RDWR without O_APPEND; EBUSY: open already; with
  // Io::io_uring, why it was refused.
  int open(int fd, const Options& options) noexcept;
  // Waits for what is in flight, then drops ring and file. Also done on destruction.
  void close() noexcept;

  bool direct() const noexcept { return file_.direct(); }
  int fd() const noexcept { return file_.fd(); }
  // Disk space that the file takes, at least the extents handed out.
  std::uint64_t preallocated_bytes() const noexcept { return file_.allocated_bytes(); }

  const char* name() const noexcept override { return "nvme"; }
  const char* io() const noexcept override { return uses_ring() ? "io_uring" : "pread"; }
  Space space() const noexcept override { return extents_.space(); }
  void set_limit(std::uint64_t bytes) noexcept override { limit_bytes_ = bytes; }
  bool give_space_back(bool all) noexcept override;
  int reserve(std::uint64_t bytes, Extent* out) noexcept override;
  void release(const Extent& extent) noexcept override;
  int submit(const Transfer& transfer) noexcept override;
  std::size_t poll(std::span<Completion> out) noexcept override;
  int wait_fd() const noexcept override { return ring_.fd(); }
  std::size_t in_flight() const noexcept override { return slots_.size() + ready_.size(); }
  std::size_t queue_depth() const noexcept override { return options_.queue_depth; }
  int reopen_after_fork() noexcept override;

 private:
  struct Slot {
    Transfer transfer;
    Progress progress;
  };

  bool uses_ring() const noexcept { return ring_.fd() >= 0; }
  int open_parts(int fd) noexcept;
  int start_io() noexcept;
  int back(const Extent& extent) noexcept;
  int grow_to(std::uint64_t end) noexcept;
  std::uint64_t needed_bytes(bool is_wanted) noexcept;
  bool shrink_to(std::uint64_t bytes, std::uint64_t until_ns) noexcept;
  bool punch_on(std::uint64_t until_ns) noexcept;
  int submit_to_ring(const Transfer& transfer) noexcept;
  int send_rest(std::uint64_t slot) noexcept;
  bool settle(const Uring::Result& result, Completion* out) noexcept;
  void drain() noexcept;

  Options options_;
  PoolFile file_;
  ExtentAllocator extents_;
  Uring ring_;
  SlotTable<Slot> slots_;
  CompletionQueue ready_;
  std::uint64_t limit_bytes_ = UINT64_MAX;
  std::uint64_t needed_end_ = 0;  // of the file, of late
  static constexpr std::uint64_t no_walk = UINT64_MAX;
  std::uint64_t released_bytes_ = 0;    // since the last walk through the file began
  std::uint64_t punched_to_ = no_walk;  // in the walk that is under way
  bool frozen_ = false;
};

}  // namespace terrace::tiers
