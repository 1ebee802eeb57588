// The file behind the NVMe tier: opened without a name, preallocated as it grows, and
// never mistaken for another.
//
// Unlinked from birth, so that its space is free the moment the last process holding it dies, however it
// dies, and so that no other job can open it. The file may be made here (embedded use) or come from the
// daemon by descriptor. It lives inside somebody else's program, which shapes two things:
//  * A program may close descriptors that are not its own and open its file under the same number. Device
//    and inode are remembered, and is_ours() is asked before the descriptor is used.
//  * Growing past RLIMIT_FSIZE would raise SIGXFSZ and end the job; the limit is
//    read first and answers EFBIG.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace terrace::tiers {

// Makes an unnamed file (O_TMPFILE, or created and unlinked at once where the file system lacks that) in
// `directory`, mode 0600, close-on-exec, with O_DIRECT where the file system takes it unless `direct` is
// false. 0 or errno; *fd_out is untouched on failure.
int open_pool_file(const char* directory, int* fd_out, bool direct = true) noexcept;

// RLIMIT_FSIZE: past this size a write, an allocation or a truncation raises SIGXFSZ.
std::uint64_t file_size_limit() noexcept;

class PoolFile {
 public:
  constexpr PoolFile() = default;
  ~PoolFile() { close(); }
  PoolFile(const PoolFile&) = delete;
  PoolFile& operator=(const PoolFile&) = delete;

  // Takes ownership of `fd` on success. EINVAL: not a regular file open for reading and writing without
  // O_APPEND; EBADF; EBUSY: open already.
  int adopt(int fd) noexcept;
  void close() noexcept;
  // Gives the descriptor back to whoever called adopt().
  void disown() noexcept { fd_ = -1; }

  int fd() const noexcept { return fd_; }
  bool direct() const noexcept { return direct_; }
  bool is_ours() const noexcept;
  std::uint64_t allocated_bytes() const noexcept { return allocated_bytes_; }

  // Sees to it that [0, needed) has disk blocks, going `step` further where there is room, never past
  // `limit`. On a full disk or quota the step is halved down to what is needed. 0, ENOSPC, EDQUOT, EFBIG
  // (RLIMIT_FSIZE), EBADF, or errno.
  int grow(std::uint64_t needed, std::uint64_t step, std::uint64_t limit) noexcept;
  // Gives back the disk blocks behind `end`, and what lies in them. 0, EBADF, or errno.
  int shrink(std::uint64_t end) noexcept;
  // The same of [from, from + bytes), which leaves a hole: fill() it before it is used again. EOPNOTSUPP: the
  // file system makes none.
  int punch(std::uint64_t from, std::uint64_t bytes) noexcept;
  bool has_holes() const noexcept { return has_holes_; }
  // Sees to it that it has disk blocks. 0, ENOSPC, EDQUOT, EBADF, or errno.
  int fill(std::uint64_t from, std::uint64_t bytes) noexcept;
  // What the disk counts, holes left out; 0: it is not ours any more.
  std::uint64_t taken_bytes() const noexcept;

 private:
  int allocate_to(std::uint64_t end) noexcept;
  int change_blocks(int mode, std::uint64_t from, std::uint64_t bytes) const noexcept;

  int fd_ = -1;
  bool direct_ = false;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  std::uint64_t allocated_bytes_ = 0;
  bool has_holes_ = false;
};

}  // namespace terrace::tiers
