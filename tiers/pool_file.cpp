// Opening and growing the pool file; the reasons are in the header.
#include "tiers/pool_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

namespace terrace::tiers {
namespace {

constexpr mode_t owner_only = 0600;

// What open(2) answers where O_TMPFILE is not known to the kernel or the file system.
bool lacks_tmpfile(int error) { return error == EOPNOTSUPP || error == EISDIR || error == EINVAL; }

// A name that cannot be guessed, created exclusively, gone again before anybody is told of it.
int create_and_unlink(const char* directory, int* fd_out) noexcept {
  std::uint64_t nonce = 0;
  if (::getrandom(&nonce, sizeof nonce, GRND_NONBLOCK) != sizeof nonce) return EAGAIN;
  char path[4096];
  const int length = std::snprintf(path, sizeof path, "%s/.terrace-%016llx", directory,
                                   static_cast<unsigned long long>(nonce));
  if (length < 0 || static_cast<std::size_t>(length) >= sizeof path) return ENAMETOOLONG;
  const int fd = ::open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, owner_only);
  if (fd < 0) return errno;
  ::unlink(path);
  *fd_out = fd;
  return 0;
}

int open_unnamed(const char* directory, int* fd_out) noexcept {
  const int fd = ::open(directory, O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, owner_only);
  if (fd < 0) return lacks_tmpfile(errno) ? create_and_unlink(directory, fd_out) : errno;
  *fd_out = fd;
  return 0;
}

}  // namespace

std::uint64_t file_size_limit() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
  return limit.rlim_cur;
}

int open_pool_file(const char* directory, int* fd_out, bool direct) noexcept {
  if (directory == nullptr || fd_out == nullptr) return EINVAL;
  int fd = -1;
  if (const int error = open_unnamed(directory, &fd)) return error;
  // By fcntl and not in open(): a file system without O_DIRECT then refuses the flag and not the file.
  if (direct) ::fcntl(fd, F_SETFL, O_DIRECT);
  *fd_out = fd;
  return 0;
}

int PoolFile::adopt(int fd) noexcept {
  if (fd_ >= 0) return EBUSY;
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0) return errno;
  struct stat status {};
  if (::fstat(fd, &status) != 0) return errno;
  if (!S_ISREG(status.st_mode) || (flags & O_ACCMODE) != O_RDWR || (flags & O_APPEND) != 0) return EINVAL;
  fd_ = fd;
  direct_ = (flags & O_DIRECT) != 0;
  device_ = status.st_dev;
  inode_ = status.st_ino;
  allocated_bytes_ = 0;
  has_holes_ = false;
  return 0;
}

void PoolFile::close() noexcept {
  if (fd_ >= 0 && is_ours()) ::close(fd_);
  fd_ = -1;
}

bool PoolFile::is_ours() const noexcept {
  struct stat status {};
  return ::fstat(fd_, &status) == 0 && status.st_dev == device_ && status.st_ino == inode_;
}

int PoolFile::grow(std::uint64_t needed, std::uint64_t step, std::uint64_t limit) noexcept {
  if (needed <= allocated_bytes_) return 0;
  if (!is_ours()) return EBADF;
  limit = std::min(limit, file_size_limit());
  if (needed > limit) return EFBIG;
  std::uint64_t end = std::min(std::max(needed, allocated_bytes_ + step), limit);
  int error = allocate_to(end);
  while ((error == ENOSPC || error == EDQUOT) && end > needed) {
    end = needed + (end - needed) / 2;
    if (end - needed < step / 64) end = needed;
    error = allocate_to(end);
  }
  return error;
}

int PoolFile::shrink(std::uint64_t end) noexcept {
  if (end >= allocated_bytes_) return 0;
  if (!is_ours()) return EBADF;
  int result = 0;
  do {
    result = ::ftruncate(fd_, static_cast<off_t>(end));
  } while (result != 0 && errno == EINTR);
  if (result != 0) return errno;
  allocated_bytes_ = end;
  return 0;
}

int PoolFile::punch(std::uint64_t from, std::uint64_t bytes) noexcept {
  if (!is_ours()) return EBADF;
  has_holes_ = true;
  return change_blocks(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, bytes);
}

int PoolFile::fill(std::uint64_t from, std::uint64_t bytes) noexcept {
  return is_ours() ? change_blocks(0, from, bytes) : EBADF;
}

std::uint64_t PoolFile::taken_bytes() const noexcept {
  struct stat status {};
  constexpr std::uint64_t block = 512;  // stat(2)
  return is_ours() && ::fstat(fd_, &status) == 0 ? static_cast<std::uint64_t>(status.st_blocks) * block : 0;
}

int PoolFile::change_blocks(int mode, std::uint64_t from, std::uint64_t bytes) const noexcept {
  int result = 0;
  do {
    result = ::fallocate(fd_, mode, static_cast<off_t>(from), static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  return result != 0 ? errno : 0;
}

int PoolFile::allocate_to(std::uint64_t end) noexcept {
  int error = change_blocks(0, allocated_bytes_, end - allocated_bytes_);
  // Without fallocate (some network file systems) the file is sparse, and a full
  // disk shows as a failed write.
  if (error == EOPNOTSUPP) error = ::ftruncate(fd_, static_cast<off_t>(end)) != 0 ? errno : 0;
  if (error == 0) allocated_bytes_ = end;
  return error;
}

}  // namespace terrace::tiers
