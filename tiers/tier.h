// The one interface of every memory tier below the heap: DRAM, NVM, NVMe, and the doubles that tests use.
//
// A tier is a space of bytes that is carved into extents and filled and emptied by asynchronous transfers.
// It neither owns data nor knows what it means; statistics, limits, tracing, delays and faults are adaptors
// around a tier (adaptors/), not flags in it.
//
// Contract
//  * After construction nothing here allocates, throws, logs, or takes a lock of the C library: the paging
//    agent inside a job calls it while other threads may hold any lock (fork, malloc).
//  * Threads: {reserve, release, space, set_limit and their like} must be serialised by the caller, and so
//    must {submit, poll}; the two groups are independent of each other and may run at the same time.
//  * Units: bytes. Buffers, extent offsets and transfer lengths are multiples of `block_bytes` (4096).
//  * Ownership: the caller keeps the buffer alive and unmoved until the transfer's completion is
//    polled, and the extent reserved. Transfers on one extent are not ordered among each other:
//    wait for one before the next.
//  * Errors are errno values. A transfer is all or nothing to the caller: short reads and writes are carried
//    on inside; one that cannot be finished completes with EIO (or the device's errno).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace terrace::tiers {

class MemorySource;

inline constexpr std::uint64_t block_bytes = 4096;

struct Extent {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  friend bool operator==(const Extent&, const Extent&) = default;
};

struct Space {
  std::uint64_t capacity_bytes = 0;
  std::uint64_t used_bytes = 0;
};

enum class Direction : std::uint8_t { read, write };

// What an extent lies on. `dram` is memory of this process, which a budget of DRAM must count.
enum class Medium : std::uint8_t { drive, nvm, dram };

struct Demoted {
  std::uint64_t to_drives_bytes = 0;
  std::uint64_t to_nvm_bytes = 0;
  std::uint64_t from_nvm_bytes = 0;
};

struct Transfer {
  Direction direction = Direction::read;
  Extent extent = {};       // whole, as reserved, or a part of it
  void* buffer = nullptr;   // at least extent.bytes
  std::uint64_t token = 0;  // comes back in the completion
};

struct Completion {
  std::uint64_t token = 0;
  int error = 0;  // 0 or an errno value
};

class Tier {
 public:
  Tier() = default;
  Tier(const Tier&) = delete;
  Tier& operator=(const Tier&) = delete;
  virtual ~Tier() = default;

  // A static string: "nvme", "dram", "failing(nvme)".
  virtual const char* name() const noexcept = 0;
  // How transfers run: "io_uring", "pread", "memcpy".
  virtual const char* io() const noexcept = 0;

  virtual Space space() const noexcept = 0;
  // The part of the space that set_limit() is about.
  virtual Space limited_space() const noexcept { return space(); }
  // Several share the space, and the caller will have no more than `bytes` of it: a tier that takes room
  // ahead of need stays within that, and reserve() answers ENOSPC where it would have to go beyond.
  virtual void set_limit(std::uint64_t bytes) noexcept { static_cast<void>(bytes); }
  // Once a second: space of a drive that was not needed of late goes back to the others that share it. `all`:
  // also what was, and may be again. Takes some milliseconds at most. True: more is to go, call again soon.
  virtual bool give_space_back(bool all) noexcept {
    static_cast<void>(all);
    return false;
  }
  // Reserves one contiguous extent of `bytes` rounded up to block_bytes. 0, or ENOSPC, EINVAL (zero), or the
  // errno of growing the pool; *out is untouched then.
  virtual int reserve(std::uint64_t bytes, Extent* out) noexcept = 0;
  // `extent` must be one that reserve() gave out, or the end of one from a multiple of unit_bytes
  // (extent_allocator.h) on, which leaves the rest reserved.
  virtual void release(const Extent& extent) noexcept = 0;

  // Starts a transfer. 0; EAGAIN when queue_depth() transfers are in flight; EINVAL for a misaligned or
  // out-of-range one. After any non-zero return no completion follows.
  virtual int submit(const Transfer& transfer) noexcept = 0;
  // Takes finished transfers without blocking; returns how many.
  virtual std::size_t poll(std::span<Completion> out) noexcept = 0;
  // Readable when poll() may have something that it had not when the last submit() or poll() returned; -1
  // when completions are ready as soon as submit() returns. A transfer may be over by then anywhere: poll
  // once.
  virtual int wait_fd() const noexcept = 0;
  virtual std::size_t in_flight() const noexcept = 0;
  virtual std::size_t queue_depth() const noexcept = 0;
  virtual Medium medium_of(std::uint64_t offset) const noexcept {
    static_cast<void>(offset);
    return Medium::drive;
  }
  // What is taken of it for what is stored: of DRAM, memory of this process; else as space() counts.
  virtual std::uint64_t bytes_on(Medium medium) const noexcept {
    return medium == Medium::drive ? space().used_bytes : 0;
  }
  // What was moved down without being asked, since it was opened.
  virtual Demoted demoted() const noexcept { return {}; }
  // At most so much DRAM, from now on: what lies beyond is moved away in the background.
  virtual void set_memory_limit(std::uint64_t bytes) noexcept { static_cast<void>(bytes); }
  // Who has memory for what will lie in DRAM, before anything does (memory/memory_source.h).
  virtual void set_memory_source(MemorySource* source) noexcept { static_cast<void>(source); }
  // How much of that is free, or will be once something newer is stored.
  virtual std::uint64_t memory_room() const noexcept { return 0; }
  // Forked children may read what lies here, where it lay when they were forked: until it is said that none
  // does any more, what they share with us is not moved. What they have a copy of is.
  virtual void set_read_by_children(bool are_there) noexcept { static_cast<void>(are_there); }
  // Whether what lies at `offset` is better written anew elsewhere than there: a transfer failed in its place
  // of late, which reserve() passes over.
  virtual bool is_passed_over(std::uint64_t offset) const noexcept {
    static_cast<void>(offset);
    return false;
  }
  // For messages: where what lies at `offset` is, such as a directory, where there are several places; else
  // "".
  virtual const char* place_of(std::uint64_t offset) const noexcept {
    static_cast<void>(offset);
    return "";
  }

  // In a forked child: the parent's transfers are its own, the space is frozen as a read-only copy. Makes the
  // tier usable for reads of what was stored before the fork, with rings of its own. 0 or errno.
  virtual int reopen_after_fork() noexcept = 0;
};

}  // namespace terrace::tiers
