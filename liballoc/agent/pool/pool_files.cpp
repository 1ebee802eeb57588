#include "liballoc/agent/pool/pool_files.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>

#include "liballoc/base/os.h"
#include "liballoc/heap/space/address_space.h"
#include "tiers/extent_allocator.h"
#include "tiers/pool_file.h"

namespace terrace::liballoc {
namespace {

constexpr std::uint64_t default_pool_most = 64ULL << 30;

// Without an answer there is as much as anybody wants; a full disk shows when space is reserved.
std::uint64_t free_bytes_of(int fd) {
  struct statvfs fs {};
  if (fstatvfs(fd, &fs) != 0) return tiers::ExtentAllocator::max_capacity_bytes;
  return std::uint64_t{fs.f_bavail} * fs.f_frsize;
}

dev_t device_of(int fd) {
  struct stat status {};
  return fstat(fd, &status) == 0 ? status.st_dev : 0;
}

}  // namespace

PoolFiles::~PoolFiles() {
  for (const File& file : files())
    if (file.fd >= 0) os::close_fd(file.fd);
}

int PoolFiles::make(const PoolDirectories& directories, const char** failed) {
  for (std::size_t i = 0; i < directories.size(); ++i) {
    File& file = files_[count_];
    file.directory = directories[i];
    if (const int error = tiers::open_pool_file(file.directory, &file.fd); error != 0) {
      *failed = file.directory;
      return error;
    }
    ++count_;
  }
  look_at_room();
  return 0;
}

// Files on one file system share what is free there.
void PoolFiles::look_at_room() {
  for (File& file : files()) file.device = device_of(file.fd);
  for (File& file : files()) {
    const auto sharers = std::count_if(files().begin(), files().end(),
                                       [&](const File& other) { return other.device == file.device; });
    file.free_bytes = free_bytes_of(file.fd) / static_cast<std::uint64_t>(sharers);
  }
}

void PoolFiles::adopt(int fd, std::uint64_t bytes) {
  files_[0].fd = fd;
  files_[0].free_bytes = bytes;
  count_ = 1;
}

void PoolFiles::divide(std::uint64_t pool_bytes) {
  std::uint64_t rooms[PoolDirectories::most] = {};
  std::uint64_t parts[PoolDirectories::most] = {};
  std::uint64_t default_bytes = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    rooms[i] = (pool_bytes != 0 ? files_[i].free_bytes : files_[i].free_bytes / 5 * 4) / run_bytes;
    default_bytes = std::min(default_bytes + rooms[i] * run_bytes, default_pool_most);
  }
  const std::uint64_t bytes = pool_bytes != 0 ? pool_bytes : default_bytes;
  const std::uint64_t runs = std::min(bytes, tiers::ExtentAllocator::max_capacity_bytes) / run_bytes;
  divide_evenly(runs, {rooms, count_}, {parts, count_});
  for (std::size_t i = 0; i < count_; ++i) files_[i].bytes = parts[i] * run_bytes;
}

const PoolFiles::File* PoolFiles::first_twin() const {
  for (std::size_t i = 1; i < count_; ++i)
    for (std::size_t earlier = 0; earlier < i; ++earlier)
      if (files_[i].device == files_[earlier].device) return &files_[i];
  return nullptr;
}

// The smallest room first: what does not fit there is left for those with more.
void divide_evenly(std::uint64_t whole, std::span<const std::uint64_t> rooms,
                   std::span<std::uint64_t> parts) {
  bool has_part[PoolDirectories::most] = {};
  for (std::size_t left = rooms.size(); left > 0; --left) {
    std::size_t smallest = PoolDirectories::most;
    for (std::size_t i = 0; i < rooms.size(); ++i)
      if (!has_part[i] && (smallest == PoolDirectories::most || rooms[i] < rooms[smallest])) smallest = i;
    parts[smallest] = left == 1 ? whole : std::min(rooms[smallest], whole / left);
    whole -= parts[smallest];
    has_part[smallest] = true;
  }
}

}  // namespace terrace::liballoc
