// See pool_file.h.
#include "daemon/pools/pool_file.h"

#include <fcntl.h>
#include <sys/stat.h>

namespace terrace::daemon {

std::optional<PoolFile> look_at_pool_file(int fd) {
  struct stat status;
  if (fd < 0 || ::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  const int flags = ::fcntl(fd, F_GETFL);
  return PoolFile{static_cast<std::uint64_t>(status.st_blocks) * 512,
                  {status.st_dev, status.st_ino},
                  status.st_nlink,
                  status.st_uid,
                  (flags & O_ACCMODE) == O_RDWR,
                  nullptr};
}

std::optional<std::uint64_t> disk_bytes(int fd) {
  struct stat status;
  if (fd < 0 || ::fstat(fd, &status) != 0) return std::nullopt;
  return static_cast<std::uint64_t>(status.st_blocks) * 512;
}

}  // namespace terrace::daemon
