// See at_rest.h.
#include "tiers/encryption/at_rest.h"

#include <fcntl.h>
#include <linux/fscrypt.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tiers/records/descriptor.h"

namespace terrace::encryption {
namespace {

namespace fs = std::filesystem;

constexpr int most_layers = 8;  // devices upon devices: md upon LVM upon dm-crypt are three

bool is_encrypted_block(const fs::path& block, int layers) {
  std::string uuid;
  if (std::getline(std::ifstream(block / "dm" / "uuid"), uuid) && uuid.starts_with("CRYPT-")) return true;
  std::error_code failed;
  if (layers == 0) return false;
  if (fs::exists(block / "partition", failed))
    return is_encrypted_block(fs::canonical(block, failed).parent_path(), layers - 1);
  bool has_slaves = false;
  for (const auto& slave : fs::directory_iterator(block / "slaves", failed)) {
    has_slaves = true;
    if (!is_encrypted_block(slave.path(), layers - 1)) return false;
  }
  return has_slaves;
}

// Why FS_IOC_GET_ENCRYPTION_POLICY_EX says nothing.
std::string why_impossible(const std::string& directory, int error) {
  constexpr const char* on_dm_crypt = "put the pool on dm-crypt (crypttab(5), with a key from /dev/urandom)";
  if (error == EOPNOTSUPP)
    return "the file system of " + directory +
           " was made without encryption, or the kernel has none: turn it on with `tune2fs -O encrypt "
           "DEVICE` "
           "(ext4), or " +
           on_dm_crypt;
  if (error == ENOTTY)
    return "the file system of " + directory +
           " cannot encrypt single directories, as ext4 can: " + on_dm_crypt;
  return directory + " cannot be asked for its encryption: " + std::strerror(error);
}

}  // namespace

bool is_encrypted_device(dev_t device, const std::string& sysfs) {
  const std::string name = std::to_string(major(device)) + ":" + std::to_string(minor(device));
  return is_encrypted_block(fs::path(sysfs) / "dev" / "block" / name, most_layers);
}

AtRest look_at_rest(const std::string& directory) {
  const records::Descriptor fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) return {AtRest::How::impossible, directory + ": " + std::strerror(errno)};
  struct stat status {};
  if (::fstat(fd.get(), &status) == 0 && is_encrypted_device(status.st_dev)) return {AtRest::How::device, ""};
  fscrypt_get_policy_ex_arg policy{};
  policy.policy_size = sizeof policy.policy;
  if (::ioctl(fd.get(), FS_IOC_GET_ENCRYPTION_POLICY_EX, &policy) == 0) return {AtRest::How::directory, ""};
  if (errno == ENODATA) return {AtRest::How::possible, ""};
  return {AtRest::How::impossible, why_impossible(directory, errno)};
}

bool takes_direct_io(int fd) {
#ifdef STATX_DIOALIGN
  struct statx status {};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) == 0 && (status.stx_mask & STATX_DIOALIGN) != 0)
    return status.stx_dio_mem_align != 0;
#else
  (void)fd;
#endif
  return true;
}

}  // namespace terrace::encryption
