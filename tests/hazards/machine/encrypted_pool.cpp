#include "tests/hazards/machine/encrypted_pool.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "tests/daemon/temporary_directory.h"
#include "tests/hazards/machine/daemon.h"
#include "tests/tiers/encryption/loop_file_system.h"

namespace terrace::hazards {
namespace {

// Sparse: what the daemon promises, 4 GiB, and what the file system needs itself.
constexpr std::uint64_t drive_bytes = std::uint64_t{5} << 30;

// In the order in which it is made; the daemon goes first.
struct EncryptedPool {
  tests::LoopFileSystem file_system{true, drive_bytes};
  std::string directory = file_system.path();
  tests::TemporaryDirectory sockets;
  std::unique_ptr<Daemon> daemon;
};

std::unique_ptr<EncryptedPool> the_pool;

}  // namespace

bool prepare_encrypted_pool(std::string* why_not) {
  if (std::getenv("HAZARD_ENCRYPTED") == nullptr) return true;
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    *why_not = std::string("no mount namespace can be made: ") + std::strerror(errno);
    return false;
  }
  the_pool = std::make_unique<EncryptedPool>();
  if (the_pool->file_system.is_mounted()) return true;
  *why_not = "root, loop devices and mkfs.ext4 are needed for a file system that can encrypt";
  the_pool.reset();
  return false;
}

const std::string* encrypted_pool_directory() { return the_pool == nullptr ? nullptr : &the_pool->directory; }

const std::string& encrypted_pool_socket() {
  if (the_pool->daemon == nullptr) the_pool->daemon = std::make_unique<Daemon>(the_pool->sockets.path());
  return the_pool->daemon->socket();
}

bool has_encrypted_pool(const std::string& pool_directory) {
  DIR* const descriptors = ::opendir("/proc/self/fd");
  bool is_encrypted = false;
  while (const dirent* entry = descriptors == nullptr ? nullptr : ::readdir(descriptors)) {
    char target[PATH_MAX] = {};
    struct statx file {};
    if (::readlinkat(::dirfd(descriptors), entry->d_name, target, sizeof target - 1) <= 0) continue;
    if (std::strncmp(target, pool_directory.c_str(), pool_directory.size()) != 0) continue;
    if (::statx(std::atoi(entry->d_name), "", AT_EMPTY_PATH, STATX_BASIC_STATS, &file) != 0) continue;
    if (!S_ISREG(file.stx_mode)) continue;
    if ((file.stx_attributes & STATX_ATTR_ENCRYPTED) == 0) return ::closedir(descriptors), false;
    is_encrypted = true;
  }
  if (descriptors != nullptr) ::closedir(descriptors);
  return is_encrypted;
}

}  // namespace terrace::hazards
