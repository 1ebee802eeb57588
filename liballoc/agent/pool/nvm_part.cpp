#include "liballoc/agent/pool/nvm_part.h"

#include <fcntl.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>

#include "liballoc/base/message.h"
#include "liballoc/base/os.h"
#include "liballoc/heap/space/address_space.h"
#include "tiers/fixed_queue.h"
#include "tiers/high_descriptor.h"
#include "tiers/memory/nvm_file.h"

namespace terrace::liballoc {
namespace {

constexpr const char* without = "; the job does without NVM";

std::uint64_t free_on_file_system(int fd) {
  struct statvfs found {};
  return ::fstatvfs(fd, &found) == 0 ? std::uint64_t{found.f_bavail} * found.f_frsize : 0;
}

int tell(const NvmWish& wish, const char* what, int error) {
  Message m(Severity::warning);
  m << "TERRACE_TIERS: " << what << wish.place() << ", ";
  m.error(error) << without;
  return -1;
}

tiers::Tier* tell_none_left() {
  Message(Severity::warning) << "TERRACE_TIERS: the daemon has no NVM left for this job" << without
                             << ": wait for others to end, or name a place of your own, nvm=SIZE@DIRECTORY";
  return nullptr;
}

// Met or refused, as every amount that is asked for.
bool has_room(const NvmWish& wish, std::uint64_t free) {
  if (wish.bytes() <= free) return true;
  Message m(Severity::warning);
  m << "TERRACE_TIERS: nvm wants ";
  m.bytes(wish.bytes()) << (wish.names_place() ? " on " : " on slow NUMA nodes") << wish.place()
                        << ", where ";
  m.bytes(free) << " are free" << without << ": ask for less";
  return false;
}

}  // namespace

tiers::Tier* NvmPart::open(const NvmWish& wish, const Grant& grant, const char* fault) {
  is_granted_ = grant.nvm_fd >= 0 && grant.nvm_capacity_bytes >= run_bytes;
  if (!is_granted_ && !wish.is_wanted()) return nullptr;
  if (!is_granted_ && grant.shares_nvm && !wish.names_place()) return tell_none_left();
  std::uint64_t bytes = is_granted_ ? grant.nvm_capacity_bytes : wish.bytes();
  if (is_granted_ && wish.is_wanted()) bytes = std::min(bytes, wish.bytes());
  const int fd = is_granted_ ? adopt(grant, wish) : make(wish);
  if (fd < 0) return nullptr;
  tiers::Tier* const tier = use(fd, bytes, wish, fault);
  if (tier != nullptr && is_granted_) nvm_.set_limit(grant.nvm_limit_bytes);
  return tier;
}

int NvmPart::adopt(const Grant& grant, const NvmWish& wish) {
  if (wish.bytes() > grant.nvm_capacity_bytes) {
    Message m(Severity::warning);
    m << "TERRACE_TIERS: the daemon grants ";
    m.bytes(grant.nvm_capacity_bytes) << " of NVM, less than the ";
    m.bytes(wish.bytes()) << " asked for: other jobs have the rest";
  }
  const auto fd = static_cast<int>(syscall(SYS_fcntl, grant.nvm_fd, F_DUPFD_CLOEXEC, 3));
  return fd >= 0 ? fd : tell(wish, "the daemon's NVM cannot be used", errno);
}

int NvmPart::make(const NvmWish& wish) {
  return wish.directory()[0] != '\0' ? make_in_directory(wish) : make_on_nodes(wish);
}

int NvmPart::make_in_directory(const NvmWish& wish) {
  int fd = -1;
  if (const int error = tiers::open_nvm_in_directory(wish.directory(), &fd))
    return tell(wish, "no file for NVM can be made in ", error);
  if (has_room(wish, free_on_file_system(fd))) return fd;
  tiers::close_by_system_call(fd);
  return -1;
}

int NvmPart::make_on_nodes(const NvmWish& wish) {
  const tiers::NodeSet nodes = wish.names_place() ? wish.nodes() : tiers::slow_nodes();
  if (nodes.is_empty()) {
    Message(Severity::warning)
        << "TERRACE_TIERS: no NUMA node here is slow memory (CXL, or persistent memory as system memory)"
        << without << ": name a directory on it, nvm=SIZE@/mnt/pmem, or nodes, nvm=SIZE@node1";
    return -1;
  }
  if (!has_room(wish, tiers::free_bytes(nodes))) return -1;
  int fd = -1;
  const int error = tiers::open_nvm_on_nodes(nodes, wish.bytes(), &fd);
  return error == 0 ? fd : tell(wish, "no memory can be had of slow NUMA nodes ", error);
}

// The descriptor is the tier's, or closed.
tiers::Tier* NvmPart::use(int fd, std::uint64_t bytes, const NvmWish& wish, const char* fault) {
  fd = tiers::move_to_high_number(fd);
  if (const int error = nvm_.open(fd, bytes, tiers::max_queue_depth)) {
    tiers::close_by_system_call(fd);
    tell(wish, "the file for NVM cannot be used ", error);
    return nullptr;
  }
  if (tiers::Tier* const tier = injection_.wrap_nvm(&nvm_, fault)) return tier;
  Message(Severity::error) << "TERRACE_FAULT=" << fault << " is not understood (" << FaultInjection::accepted
                           << ")" << without;
  nvm_.close();
  return nullptr;
}

}  // namespace terrace::liballoc
