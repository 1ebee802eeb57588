// A directory whose files are encrypted on the drive under a key that nobody has but the kernel (fscrypt,
// AES-256-XTS). The key is random, is made with the directory and forgotten with it: after that, and after a
// restart of the machine, what lies on the drive is noise.
//
//   PARENT/.terrace-encrypted-XXXXXX    a lock of its maker's, and nothing else: files in it have no names
//
// Files that are open when the key is taken back stay readable for those who hold them, until the last one
// has closed his. A maker that is killed leaves the directory and the kernel's copy of the key: the next
// maker in the same parent takes both away.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

namespace terrace::encryption {

using KeyIdentifier = std::array<std::uint8_t, 16>;

class EncryptedDirectory {
 public:
  // In `parent`, which belongs to a file system that can (AtRest::How::possible). Null, and why in `problem`,
  // for people; then nothing is left behind.
  static std::unique_ptr<EncryptedDirectory> make(const std::string& parent, std::string* problem);
  // Takes the key back, and the directory if it is empty. The kernel writes the file system out first, which
  // takes as long as that takes.
  ~EncryptedDirectory();
  EncryptedDirectory(const EncryptedDirectory&) = delete;
  EncryptedDirectory& operator=(const EncryptedDirectory&) = delete;

  const std::string& path() const { return path_; }
  const KeyIdentifier& key() const { return key_; }
  // Whether the file or directory is encrypted under this directory's key: what was made in it is.
  bool encrypts(int fd) const;

  static constexpr const char* prefix = ".terrace-encrypted-";

 private:
  EncryptedDirectory(int parent_fd, std::string parent) : parent_fd_(parent_fd), parent_(std::move(parent)) {}
  int set_up();
  void sweep_beside(int parent_fd) const;

  int parent_fd_;
  std::string parent_;
  std::string path_;
  int fd_ = -1;  // the directory, locked
  KeyIdentifier key_{};
  bool has_key_ = false;
  // Takes away what was left by those who were killed: for that the kernel writes the file system out.
  std::thread sweeper_;
};

}  // namespace terrace::encryption
