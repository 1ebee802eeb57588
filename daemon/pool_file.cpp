// See pool_file.h.
#include "daemon/pool_file.h"

#include <sys/stat.h>

namespace terrace::daemon {

std::optional<PoolFile> look_at_pool_file(int fd) {
  struct stat status;
  if (fd < 0 || ::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return PoolFile{static_cast<std::uint64_t>(status.st_blocks) * 512};
}

}  // namespace terrace::daemon
