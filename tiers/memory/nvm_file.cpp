// See nvm_file.h. libnuma would be one more library in other people's programs: two system calls do.
#include "tiers/memory/nvm_file.h"

#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "tiers/pool_file.h"

namespace terrace::tiers {
namespace {

constexpr unsigned long nodes_said = NodeSet::most + 1;  // the kernel looks at one less

// The rule belongs to the file and stays when the mapping is gone.
int bind_to(const NodeSet& nodes, int fd, std::uint64_t bytes) noexcept {
  void* const pages = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (pages == MAP_FAILED) return errno;
  const long result = ::syscall(SYS_mbind, pages, bytes, MPOL_BIND, nodes.words().data(), nodes_said, 0U);
  const int error = result != 0 ? errno : 0;
  ::munmap(pages, bytes);
  return error;
}

}  // namespace

int open_nvm_in_directory(const char* directory, int* fd_out) noexcept {
  constexpr bool direct = false;  // there is no cache to go past, or one that is wanted
  return open_pool_file(directory, fd_out, direct);
}

int open_nvm_on_nodes(const NodeSet& nodes, std::uint64_t capacity_bytes, int* fd_out) noexcept {
  if (nodes.is_empty() || capacity_bytes == 0) return EINVAL;
  if (capacity_bytes > file_size_limit()) return EFBIG;
  const int fd = ::memfd_create("terrace-nvm", MFD_CLOEXEC);
  if (fd < 0) return errno;
  int error = ::ftruncate(fd, static_cast<off_t>(capacity_bytes)) != 0 ? errno : 0;
  if (error == 0) error = bind_to(nodes, fd, capacity_bytes);
  if (error != 0) {
    ::close(fd);
    return error;
  }
  *fd_out = fd;
  return 0;
}

NodeSet nodes_of(int fd) noexcept {
  constexpr std::size_t page_bytes = 4096;
  void* const page = ::mmap(nullptr, page_bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED) return {};
  NodeSet nodes;
  int mode = MPOL_DEFAULT;
  const long result =
      ::syscall(SYS_get_mempolicy, &mode, nodes.words().data(), nodes_said, page, MPOL_F_ADDR);
  ::munmap(page, page_bytes);
  return result == 0 && mode == MPOL_BIND ? nodes : NodeSet();
}

bool is_dax(int fd) noexcept {
#ifdef STATX_ATTR_DAX
  struct statx about {};
  return ::statx(fd, "", AT_EMPTY_PATH, 0, &about) == 0 && (about.stx_attributes & STATX_ATTR_DAX) != 0;
#else
  static_cast<void>(fd);
  return false;
#endif
}

}  // namespace terrace::tiers
