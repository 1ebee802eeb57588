#include "liballoc/agent/pool/pool_tier.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <cstring>

#include "liballoc/base/message.h"
#include "liballoc/base/os.h"
#include "liballoc/base/own_descriptors.h"
#include "liballoc/heap/address_space.h"
#include "tiers/high_descriptor.h"
#include "tiers/pool_file.h"

namespace terrace::liballoc {
namespace {

constexpr std::uint64_t default_pool_most = 64ULL << 30;

}  // namespace

std::uint64_t PoolTier::default_bytes(int fd) {
  struct statvfs fs {};
  if (fstatvfs(fd, &fs) != 0) return default_pool_most;
  const std::uint64_t free_bytes = std::uint64_t{fs.f_bavail} * fs.f_frsize;
  return std::min(default_pool_most, free_bytes / 5 * 4);
}

int PoolTier::open_file(Client& client, int* fd) {
  const Grant& grant = client.grant();
  is_granted_ = grant.pool_fd >= 0 && grant.pool_capacity_bytes >= run_bytes;
  if (is_granted_) {
    *fd = static_cast<int>(syscall(SYS_fcntl, grant.pool_fd, F_DUPFD_CLOEXEC, 3));
    bytes_ = grant.pool_capacity_bytes;
    return *fd >= 0 ? 0 : errno;
  }
  client.use_no_pool();
  const char* directory = options_.pool_directory;
  if (client.connected()) {
    Message(Severity::warning)
        << "the daemon grants no pool (its log says why): what does not fit in DRAM goes to a "
           "file of this process in "
        << directory << ", which the daemon's [pool] size does not count";
  }
  return tiers::open_pool_file(directory, fd);
}

bool PoolTier::unusable(int error) {
  availability_.set_unavailable("the pool file cannot be used");
  Message m(Severity::warning);
  m << availability_.reason() << ", ";
  m.error(error) << "; the program runs on plain memory";
  return false;
}

bool PoolTier::no_file(int error) {
  if (is_granted_) return unusable(error);
  Message m(Severity::warning);
  m << "TERRACE_POOL_DIR=" << options_.pool_directory << ": no pool file can be made there, ";
  m.error(error) << "; the program runs on plain memory";
  availability_.set_unavailable("no pool file can be made in TERRACE_POOL_DIR");
  return false;
}

// Whole runs. False: the disk is full.
bool PoolTier::set_capacity(int fd) {
  if (bytes_ == 0) bytes_ = options_.pool_bytes != 0 ? options_.pool_bytes : default_bytes(fd);
  bytes_ = std::min(bytes_, tiers::ExtentAllocator::max_capacity_bytes) / run_bytes * run_bytes;
  return bytes_ != 0;
}

// The file's descriptor is the tier's, or closed.
bool PoolTier::open_on(int fd) {
  const tiers::NvmeTier::Options options{.capacity_bytes = bytes_,
                                         .io = static_cast<tiers::NvmeTier::Io>(options_.io)};
  if (const int error = nvme_.open(fd, options); error != 0) {
    os::close_fd(fd);
    if (options_.io != IoKind::io_uring) return unusable(error);
    availability_.give_up("io_uring is not available, and TERRACE_IO insists on it");
    return false;
  }
  note_descriptor(fd);
  note_descriptor(nvme_.wait_fd());
  if (std::strcmp(nvme_.io(), "io_uring") != 0 && options_.io == IoKind::automatic) {
    Message(Severity::warning)
        << "io_uring is not available here: the pool is read and written with pread and pwrite";
  }
  return true;
}

bool PoolTier::wrap() {
  tier_ = injection_.wrap(&nvme_, options_.fault);
  if (tier_ != nullptr) {
    if (tier_->wait_fd() != nvme_.wait_fd()) note_descriptor(tier_->wait_fd());
    return true;
  }
  availability_.set_unavailable("TERRACE_FAULT is not understood");
  Message(Severity::error) << "TERRACE_FAULT=" << options_.fault << " is not understood ("
                           << FaultInjection::accepted << "); the program runs on plain memory";
  return false;
}

bool PoolTier::open(Client& client) {
  int fd = -1;
  if (const int error = open_file(client, &fd); error != 0) return no_file(error);
  if (!set_capacity(fd)) {
    os::close_fd(fd);
    return unusable(ENOSPC);
  }
  return open_on(tiers::move_to_high_number(fd)) && wrap();
}

void PoolTier::forget_descriptors_in_child() {
  forget_descriptor(nvme_.wait_fd());
  if (tier_ != nullptr) forget_descriptor(tier_->wait_fd());
}

void PoolTier::note_descriptors_in_child() { note_descriptor(tier_->wait_fd()); }

}  // namespace terrace::liballoc
