// See encrypted_directory.h.
#include "tiers/encryption/encrypted_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fscrypt.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "tiers/records/descriptor.h"

namespace terrace::encryption {
namespace {

// The kernel's form of a new key, which is wiped where it goes out of scope.
struct NewKey {
  alignas(fscrypt_add_key_arg)
      std::array<unsigned char, sizeof(fscrypt_add_key_arg) + FSCRYPT_MAX_KEY_SIZE> bytes{};
  fscrypt_add_key_arg* argument() { return reinterpret_cast<fscrypt_add_key_arg*>(bytes.data()); }
  NewKey() = default;
  NewKey(const NewKey&) = delete;
  NewKey& operator=(const NewKey&) = delete;
  ~NewKey() { ::explicit_bzero(bytes.data(), bytes.size()); }
};

// To the file system of `fd`. 0 or errno.
int add_random_key(int fd, KeyIdentifier* identifier) {
  NewKey key;
  fscrypt_add_key_arg* const argument = key.argument();
  argument->key_spec.type = FSCRYPT_KEY_SPEC_TYPE_IDENTIFIER;
  argument->raw_size = FSCRYPT_MAX_KEY_SIZE;
  if (::getrandom(argument->raw, FSCRYPT_MAX_KEY_SIZE, 0) != FSCRYPT_MAX_KEY_SIZE) return EAGAIN;
  if (::ioctl(fd, FS_IOC_ADD_ENCRYPTION_KEY, argument) != 0) return errno;
  std::copy_n(argument->key_spec.u.identifier, identifier->size(), identifier->begin());
  return 0;
}

void remove_key(int fd, const KeyIdentifier& identifier) {
  fscrypt_remove_key_arg argument{};
  argument.key_spec.type = FSCRYPT_KEY_SPEC_TYPE_IDENTIFIER;
  std::copy(identifier.begin(), identifier.end(), argument.key_spec.u.identifier);
  if (::ioctl(fd, FS_IOC_REMOVE_ENCRYPTION_KEY, &argument) != 0) {
    // Another user's, or gone already.
  }
}

int set_policy(int fd, const KeyIdentifier& identifier) {
  fscrypt_policy_v2 policy{};
  policy.version = FSCRYPT_POLICY_V2;
  policy.contents_encryption_mode = FSCRYPT_MODE_AES_256_XTS;
  policy.filenames_encryption_mode = FSCRYPT_MODE_AES_256_CTS;
  policy.flags = FSCRYPT_POLICY_FLAGS_PAD_32;
  std::copy(identifier.begin(), identifier.end(), policy.master_key_identifier);
  return ::ioctl(fd, FS_IOC_SET_ENCRYPTION_POLICY, &policy) == 0 ? 0 : errno;
}

// Under which key `fd` is encrypted, if it is.
std::optional<KeyIdentifier> key_of(int fd) {
  fscrypt_get_policy_ex_arg argument{};
  argument.policy_size = sizeof argument.policy;
  if (::ioctl(fd, FS_IOC_GET_ENCRYPTION_POLICY_EX, &argument) != 0 ||
      argument.policy.version != FSCRYPT_POLICY_V2)
    return std::nullopt;
  KeyIdentifier identifier{};
  std::copy_n(argument.policy.v2.master_key_identifier, identifier.size(), identifier.begin());
  return identifier;
}

std::vector<std::string> names_beside(int parent_fd) {
  std::vector<std::string> names;
  const int fd = ::openat(parent_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const listing = fd < 0 ? nullptr : ::fdopendir(fd);
  if (listing == nullptr) {
    if (fd >= 0) ::close(fd);
    return names;
  }
  while (const dirent* const entry = ::readdir(listing)) {
    if (std::string_view(entry->d_name).starts_with(EncryptedDirectory::prefix))
      names.emplace_back(entry->d_name);
  }
  ::closedir(listing);
  return names;
}

// A directory of ours that nobody has locked: its maker is gone.
void remove_left(int parent_fd, const std::string& name) {
  std::optional<KeyIdentifier> key;
  {
    const records::Descriptor fd(
        ::openat(parent_fd, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat status {};
    if (fd.get() < 0 || ::fstat(fd.get(), &status) != 0 || status.st_uid != ::geteuid()) return;
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return;
    key = key_of(fd.get());
    ::unlinkat(parent_fd, name.c_str(), AT_REMOVEDIR);
  }
  if (key) remove_key(parent_fd, *key);
}

}  // namespace

std::unique_ptr<EncryptedDirectory> EncryptedDirectory::make(const std::string& parent,
                                                             std::string* problem) {
  const int parent_fd = ::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (parent_fd < 0) {
    *problem = parent + ": " + std::strerror(errno);
    return nullptr;
  }
  std::unique_ptr<EncryptedDirectory> made(new EncryptedDirectory(parent_fd, parent));
  if (const int error = made->set_up(); error != 0) {
    *problem = "no encrypted directory can be made in " + parent + ": " + std::strerror(error);
    return nullptr;
  }
  const EncryptedDirectory* const self = made.get();
  made->sweeper_ = std::thread([self] { self->sweep_beside(self->parent_fd_); });
  return made;
}

int EncryptedDirectory::set_up() {
  std::string path = parent_ + "/" + prefix + "XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) return errno;
  path_ = std::move(path);
  fd_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd_ < 0 || ::flock(fd_, LOCK_EX | LOCK_NB) != 0) return errno;
  if (const int error = add_random_key(fd_, &key_); error != 0) return error;
  has_key_ = true;
  return set_policy(fd_, key_);
}

EncryptedDirectory::~EncryptedDirectory() {
  if (sweeper_.joinable()) sweeper_.join();
  if (!path_.empty()) ::rmdir(path_.c_str());
  if (fd_ >= 0) ::close(fd_);
  if (has_key_) remove_key(parent_fd_, key_);
  ::close(parent_fd_);
}

bool EncryptedDirectory::encrypts(int fd) const { return key_of(fd) == key_; }

void EncryptedDirectory::sweep_beside(int parent_fd) const {
  for (const std::string& name : names_beside(parent_fd)) remove_left(parent_fd, name);
}

}  // namespace terrace::encryption
